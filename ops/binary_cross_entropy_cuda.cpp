#include "ops/binary_cross_entropy_cuda.h"

#include "ops/binary_cross_entropy.h"
#include "ops/cuda/mean_loss.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_forward{binary_cross_entropy_forward, DeviceKind::cuda,
                                  cuda::mean_loss<cuda::BinaryCrossEntropyTerms>};
const RegisterKernel cuda_backward{binary_cross_entropy_backward, DeviceKind::cuda,
                                   cuda::mean_loss_gradient<cuda::BinaryCrossEntropyTerms>};

}  // namespace
}  // namespace lacuna
