#include "optim/kernels.h"
#include "optim/start_update.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{lion_update, DeviceKind::cuda, [](const LionSettings& settings, const Update& what) {
                                   cuda::start_update(LionRule{settings, what.rate}, what);
                                 }};

}  // namespace
}  // namespace lacuna
