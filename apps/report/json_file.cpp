#include "apps/report/json_file.h"

#include "apps/output/output.h"
#include "core/error.h"
#include "models/io/json_fields.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace lacuna::apps {

std::optional<nlohmann::ordered_json> read_or_warn(const std::filesystem::path& file, std::string_view instead) {
  try {
    return read_json_object(file);
  } catch (const Error& error) {
    print_error(fmt::format("lacuna: warning: {}; {}\n", error.what(), instead));
    return {};
  }
}

}  // namespace lacuna::apps
