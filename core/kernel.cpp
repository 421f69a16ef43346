#include "core/kernel.h"

#include "core/error.h"

namespace lacuna::detail {

void throw_missing_kernel(const char* name, Device device) {
  fail("{} has no kernel for device {}: register one with RegisterKernel (core/kernel.h)", name, name_of(device));
}

void throw_kernel_registered_twice(const char* name, DeviceKind kind) {
  fail("{} has two kernels for device {}", name, name_of(Device{kind}));
}

}  // namespace lacuna::detail
