#include "optim/kernels.h"
#include "optim/rules.h"
#include "optim/start_updates.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{
    sgd_update, DeviceKind::cuda, [](const SgdSettings& settings, std::span<const Update> updates) {
      with_sgd_rule(settings, [&](const auto& rule) { cuda::start_updates(rule, updates); });
    }};

}  // namespace
}  // namespace lacuna
