// The GPU that CUDA's runtime and cuDNN are told of in these tests.
#pragma once

#include <string>

namespace lacuna {

struct DescribedDevice {
  std::string name;
  int major, minor, multiprocessors, shared_bytes, l2_bytes;
  /// As cuDNN's DeviceProperties read it.
  std::string json() const;
};

/// The device that runtime.cpp describes; there is one at a time.
const DescribedDevice*& described_device();

}  // namespace lacuna
