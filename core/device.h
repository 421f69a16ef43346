// Where a tensor lives.
#pragma once

#include <cstdint>
#include <string_view>

namespace lacuna {

/// `meta` tensors have shape, type and identity and no memory: kernels do nothing on them, the ledger counts as ever.
enum class Device : std::uint8_t { cpu, meta };

inline constexpr int device_count = 2;

constexpr std::string_view name_of(Device device) { return device == Device::cpu ? "cpu" : "meta"; }

/// Runs `kernel` where `device` has memory to run it on.
template <class Kernel>
void launch(Device device, Kernel&& kernel) {
  if (device == Device::cpu) kernel();
}

}  // namespace lacuna
