#include "core/device.h"

namespace lacuna {

std::string name_of(Device device) {
  constexpr const char* names[device_kind_count] = {"cpu", "meta", "cuda"};
  const std::string kind = names[static_cast<std::size_t>(device.kind)];
  return device.index == 0 ? kind : kind + ":" + std::to_string(device.index);
}

std::optional<Device> device_named(std::string_view text) {
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::meta})
    if (text == name_of(Device{kind})) return Device{kind};
  for (int index = 0; index < max_devices; ++index)
    if (const Device device{DeviceKind::cuda, static_cast<std::uint8_t>(index)}; text == name_of(device)) return device;
  return {};
}

}  // namespace lacuna
