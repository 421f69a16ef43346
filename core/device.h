// The device on which a tensor lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

/// `meta` tensors have shape, type and identity but no memory. No values are computed; the ledger counts their bytes.
enum class DeviceKind : std::uint8_t { cpu, meta, cuda };

inline constexpr std::size_t device_kind_count = 3;
inline constexpr int max_devices = 16;  // per kind

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::uint8_t index = 0;  // number among the devices of this kind

  static const Device cpu, meta, cuda;
  constexpr bool operator==(const Device&) const = default;
};

inline constexpr Device Device::cpu{DeviceKind::cpu};
inline constexpr Device Device::meta{DeviceKind::meta};
inline constexpr Device Device::cuda{DeviceKind::cuda};  // the first one

/// `cpu`, `meta`, `cuda`, `cuda:1`.
std::string name_of(Device device);
/// `cpu`, `meta`, `cuda`, `cuda:1`; nothing for any other text.
std::optional<Device> device_named(std::string_view text);

}  // namespace lacuna
