// The kind of device for which a step on `meta` stands: workspaces are those of its kernels.
#pragma once

#include "core/device.h"

namespace lacuna {

/// While it lives, steps on `meta` that this thread takes stand for a device of this kind; without one, for the CPU.
class PlannedDeviceScope {
 public:
  explicit PlannedDeviceScope(DeviceKind kind);
  ~PlannedDeviceScope();
  PlannedDeviceScope(const PlannedDeviceScope&) = delete;
  PlannedDeviceScope& operator=(const PlannedDeviceScope&) = delete;

 private:
  DeviceKind outer_;
};

/// Whether kernels of cuda compute there, or will in what a step on `meta` stands for.
bool computes_on_cuda(Device device);

}  // namespace lacuna
