#include "core/device.h"

namespace lacuna {

std::string name_of(Device device) { return device.kind == DeviceKind::cpu ? "cpu" : "meta"; }

}  // namespace lacuna
