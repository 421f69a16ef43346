#include "autograd/policy.h"

namespace lacuna {

std::string_view name_of(Hold hold) {
  constexpr std::string_view names[] = {"drop", "keep", "derive", "mask"};
  return names[static_cast<std::size_t>(hold)];
}

Registry<std::shared_ptr<const MemoryPolicy>>& memory_policies() {
  static Registry<std::shared_ptr<const MemoryPolicy>> registry("memory policy");
  return registry;
}

}  // namespace lacuna
