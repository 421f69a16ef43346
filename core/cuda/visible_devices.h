// Which of the GPUs that the driver shows can be used.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace lacuna::cuda {

struct VisibleDevice {
  std::string name;
  int major, minor;  // of its compute capability
};

struct UsableDevices {
  std::vector<int> numbers{};           // of the driver, in order
  std::vector<std::string> left_out{};  // the others, each with the reason
};

/// Kernels use bf16, which GPUs have from compute capability 8.0 on.
inline UsableDevices usable_devices(const std::vector<VisibleDevice>& visible) {
  constexpr int least_major = 8;
  UsableDevices usable;
  for (int i = 0; const VisibleDevice& device : visible) {
    if (device.major >= least_major)
      usable.numbers.push_back(i);
    else
      usable.left_out.push_back(fmt::format("{} has compute capability {}.{}, and Lacuna needs {}.0 (Ampere) or newer",
                                            device.name, device.major, device.minor, least_major));
    ++i;
  }
  return usable;
}

}  // namespace lacuna::cuda
