// The device that a step on `meta` simulates; it determines the workspaces of kernels.
#pragma once

#include "core/card.h"
#include "core/device.h"

namespace lacuna {

/// While this object lives, steps that this thread runs on `meta` simulate a device of this kind, and of cuda this
/// card. The default is the CPU.
class PlannedDeviceScope {
 public:
  explicit PlannedDeviceScope(DeviceKind kind, const Card& card = {});
  ~PlannedDeviceScope();
  PlannedDeviceScope(const PlannedDeviceScope&) = delete;
  PlannedDeviceScope& operator=(const PlannedDeviceScope&) = delete;

 private:
  DeviceKind outer_;
  Card outer_card_;
};

/// Whether `device` is a cuda device, or `meta` simulating one.
bool computes_on_cuda(Device device);
/// The card of a cuda device, or the one that `meta` simulates.
Card card_of(Device device);

}  // namespace lacuna
