#include "optim/kernels.h"
#include "optim/start_update.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{sgd_update, DeviceKind::cuda, [](const SgdSettings& settings, const Update& what) {
                                   with_sgd_rule(settings, what.rate,
                                                 [&](const auto& rule) { cuda::start_update(rule, what); });
                                 }};

}  // namespace
}  // namespace lacuna
