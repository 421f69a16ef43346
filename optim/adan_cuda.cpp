#include "optim/kernels.h"
#include "optim/rules.h"
#include "optim/start_updates.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{adan_update, DeviceKind::cuda,
                                 [](const AdanSettings& settings, std::span<const Update> updates) {
                                   cuda::start_updates(AdanRule{settings}, updates);
                                 }};

}  // namespace
}  // namespace lacuna
