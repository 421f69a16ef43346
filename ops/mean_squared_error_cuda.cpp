#include "ops/mean_squared_error_cuda.h"

#include "ops/cuda/mean_loss.h"
#include "ops/mean_squared_error.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_forward{mean_squared_error_forward, DeviceKind::cuda,
                                  cuda::mean_loss<cuda::SquaredErrorTerms>};
const RegisterKernel cuda_backward{mean_squared_error_backward, DeviceKind::cuda,
                                   cuda::mean_loss_gradient<cuda::SquaredErrorTerms>};

}  // namespace
}  // namespace lacuna
