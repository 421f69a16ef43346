#include "optim/kernels.h"
#include "optim/rules.h"
#include "optim/start_updates.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{lion_update, DeviceKind::cuda,
                                 [](const LionSettings& settings, std::span<const Update> updates) {
                                   cuda::start_updates(LionRule{settings}, updates);
                                 }};

}  // namespace
}  // namespace lacuna
