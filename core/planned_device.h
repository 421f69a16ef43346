// The kind of device that a step on `meta` simulates; it determines the workspaces of kernels.
#pragma once

#include "core/device.h"

namespace lacuna {

/// While this object lives, steps that this thread runs on `meta` simulate a device of this kind. The default is the
/// CPU.
class PlannedDeviceScope {
 public:
  explicit PlannedDeviceScope(DeviceKind kind);
  ~PlannedDeviceScope();
  PlannedDeviceScope(const PlannedDeviceScope&) = delete;
  PlannedDeviceScope& operator=(const PlannedDeviceScope&) = delete;

 private:
  DeviceKind outer_;
};

/// Whether `device` is a cuda device, or `meta` simulating one.
bool computes_on_cuda(Device device);

}  // namespace lacuna
