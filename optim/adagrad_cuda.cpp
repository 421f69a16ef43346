#include "optim/kernels.h"
#include "optim/start_update.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{adagrad_update, DeviceKind::cuda,
                                 [](const AdagradSettings& settings, const Update& what) {
                                   cuda::start_update(AdagradRule{settings, what.rate}, what);
                                 }};

}  // namespace
}  // namespace lacuna
