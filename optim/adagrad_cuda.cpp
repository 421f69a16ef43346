#include "optim/kernels.h"
#include "optim/rules.h"
#include "optim/start_updates.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{adagrad_update, DeviceKind::cuda,
                                 [](const AdagradSettings& settings, std::span<const Update> updates) {
                                   cuda::start_updates(AdagradRule{settings}, updates);
                                 }};

}  // namespace
}  // namespace lacuna
