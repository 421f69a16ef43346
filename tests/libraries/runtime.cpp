// Stubs of the CUDA runtime calls that cuDNN's frontend makes while planning. They answer like the described device
// (linked with --wrap).
#include "tests/libraries/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>

namespace lacuna {

const DescribedDevice*& described_device() {
  static const DescribedDevice* device = nullptr;
  return device;
}

std::string DescribedDevice::json() const {
  return fmt::format(
      R"({{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
"multiProcessorCount": {}, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "l2CacheSize": {}, "warpSize": 32,
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024,
"maxRegistersPerSM": 65536, "pciDeviceId": 0, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
"isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 85017755648, "deviceVer": {}, "driverVer": 13000,
"name": "{}", "deviceName": "{}", "cudaDeviceId": 0}})",
      multiprocessors, l2_bytes, shared_bytes, 100 * major + 10 * minor, name, name);
}

}  // namespace lacuna

extern "C" {

cudaError_t __wrap_cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  const lacuna::DescribedDevice& device = *lacuna::described_device();
  std::memset(properties, 0, sizeof *properties);
  properties->major = device.major;
  properties->minor = device.minor;
  properties->multiProcessorCount = device.multiprocessors;
  return cudaSuccess;
}
cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const lacuna::DescribedDevice& device = *lacuna::described_device();
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = device.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device.minor;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = device.multiprocessors;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = device.shared_bytes;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

}  // extern "C"
