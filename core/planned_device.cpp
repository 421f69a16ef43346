#include "core/planned_device.h"

#include "core/backend.h"

#include <utility>

namespace lacuna {
namespace {
constinit thread_local DeviceKind planned = DeviceKind::cpu;
constinit thread_local Card planned_card{};
}  // namespace

PlannedDeviceScope::PlannedDeviceScope(DeviceKind kind, const Card& card)
    : outer_(std::exchange(planned, kind)), outer_card_(std::exchange(planned_card, card)) {}
PlannedDeviceScope::~PlannedDeviceScope() {
  planned = outer_;
  planned_card = outer_card_;
}

bool computes_on_cuda(Device device) {
  return device.kind == DeviceKind::cuda || (device == Device::meta && planned == DeviceKind::cuda);
}

Card card_of(Device device) {
  return device.kind == DeviceKind::cuda ? backend(device).card(device.index) : planned_card;
}

}  // namespace lacuna
