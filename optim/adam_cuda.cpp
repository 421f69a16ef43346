#include "optim/kernels.h"
#include "optim/rules.h"
#include "optim/start_updates.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{adam_update, DeviceKind::cuda,
                                 [](const AdamSettings& settings, std::span<const Update> updates) {
                                   cuda::start_updates(AdamRule{settings}, updates);
                                 }};

}  // namespace
}  // namespace lacuna
