#include "models/task.h"

#include <algorithm>
#include <array>

namespace lacuna {

bool Task::is_copied_by_models(std::string_view field) {
  constexpr std::array<std::string_view, 6> names{"images", "image_scale", "image_mixes",
                                                  "tokens", "token_types", "features"};
  return std::ranges::find(names, field) != names.end();
}

}  // namespace lacuna
