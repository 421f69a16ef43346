#include "optim/kernels.h"
#include "optim/start_update.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{adan_update, DeviceKind::cuda, [](const AdanSettings& settings, const Update& what) {
                                   cuda::start_update(AdanRule{settings, what.rate}, what);
                                 }};

}  // namespace
}  // namespace lacuna
