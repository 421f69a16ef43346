#include "apps/version.h"

#include "apps/commit.h"

#include <fmt/format.h>

namespace lacuna::apps {

std::string_view commit() { return LACUNA_COMMIT; }

std::string version_and_commit() {
  return commit().empty() ? LACUNA_VERSION : fmt::format("{} ({})", LACUNA_VERSION, commit());
}

}  // namespace lacuna::apps
