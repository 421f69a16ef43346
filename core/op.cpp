#include "core/op.h"

namespace lacuna {

std::string_view name_of(Need need) {
  constexpr std::string_view names[] = {"sign", "value", "exact"};
  return names[static_cast<std::size_t>(need)];
}

std::vector<std::string_view>& op_names() {
  static std::vector<std::string_view> names;
  return names;
}

}  // namespace lacuna
