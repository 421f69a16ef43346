#include "core/planned_device.h"

#include <utility>

namespace lacuna {
namespace {
constinit thread_local DeviceKind planned = DeviceKind::cpu;
}

PlannedDeviceScope::PlannedDeviceScope(DeviceKind kind) : outer_(std::exchange(planned, kind)) {}
PlannedDeviceScope::~PlannedDeviceScope() { planned = outer_; }

DeviceKind planned_device() { return planned; }

}  // namespace lacuna
