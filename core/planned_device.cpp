#include "core/planned_device.h"

#include <utility>

namespace lacuna {
namespace {
constinit thread_local DeviceKind planned = DeviceKind::cpu;
}

PlannedDeviceScope::PlannedDeviceScope(DeviceKind kind) : outer_(std::exchange(planned, kind)) {}
PlannedDeviceScope::~PlannedDeviceScope() { planned = outer_; }

bool computes_on_cuda(Device device) {
  return device.kind == DeviceKind::cuda || (device == Device::meta && planned == DeviceKind::cuda);
}

}  // namespace lacuna
