#include "optim/kernels.h"
#include "optim/start_update.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{adam_update, DeviceKind::cuda, [](const AdamSettings& settings, const Update& what) {
                                   cuda::start_update(AdamRule{settings, what.rate}, what);
                                 }};

}  // namespace
}  // namespace lacuna
