// Which of the GPUs that the driver shows can be used.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
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

/// Whether a build for `architectures`, as CMake's CMAKE_CUDA_ARCHITECTURES with commas, has code for a device. It has
/// not where the driver makes some from PTX first.
inline bool has_code(std::string_view architectures, const VisibleDevice& device) {
  if (architectures == "native") return true;
  for (std::size_t begin = 0; begin < architectures.size();) {
    const std::size_t end = std::min(architectures.find(',', begin), architectures.size());
    const std::string_view one = architectures.substr(begin, end - begin);
    begin = end + 1;
    int number = 0;
    std::from_chars(one.data(), one.data() + one.size(), number);
    if (!one.ends_with("-virtual") && number / 10 == device.major && number % 10 <= device.minor) return true;
  }
  return false;
}

}  // namespace lacuna::cuda
