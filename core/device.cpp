#include "core/device.h"

namespace lacuna {

std::string name_of(Device device) {
  constexpr const char* names[device_kind_count] = {"cpu", "meta", "cuda"};
  const std::string kind = names[static_cast<std::size_t>(device.kind)];
  return device.index == 0 ? kind : kind + ":" + std::to_string(device.index);
}

}  // namespace lacuna
