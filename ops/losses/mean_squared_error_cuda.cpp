#include "ops/losses/mean_squared_error_cuda.h"

#include "ops/cuda/mean_loss.h"
#include "ops/losses/mean_squared_error.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_forward{mean_squared_error_forward, DeviceKind::cuda,
                                  [](const Tensor& x, const Tensor& targets, const Tensor& loss) {
                                    cuda::mean_loss<cuda::SquaredErrorTerms>(x, targets, {}, loss);
                                  }};
const RegisterKernel cuda_backward{mean_squared_error_backward, DeviceKind::cuda,
                                   [](const Tensor& x, const Tensor& targets, const Tensor& dy, const Tensor& dx) {
                                     cuda::mean_loss_gradient<cuda::SquaredErrorTerms>(x, targets, {}, dy, dx);
                                   }};

}  // namespace
}  // namespace lacuna
