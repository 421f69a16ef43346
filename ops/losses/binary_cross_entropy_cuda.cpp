#include "ops/losses/binary_cross_entropy_cuda.h"

#include "ops/cuda/mean_loss.h"
#include "ops/losses/binary_cross_entropy.h"

namespace lacuna {
namespace {

Tensor weights_of(std::span<const double> weights, Device device) {
  if (weights.empty()) return {};
  return Tensor::from(weights, {std::ssize(weights)}, DType::f32, device);
}

const RegisterKernel cuda_forward{
    binary_cross_entropy_forward, DeviceKind::cuda,
    [](std::span<const double> positive_weights, const Tensor& logits, const Tensor& targets, const Tensor& loss) {
      const Tensor weights = weights_of(positive_weights, logits.device());
      cuda::mean_loss<cuda::BinaryCrossEntropyTerms>(logits, targets, weights, loss);
    }};
const RegisterKernel cuda_backward{binary_cross_entropy_backward, DeviceKind::cuda,
                                   [](std::span<const double> positive_weights, const Tensor& logits,
                                      const Tensor& targets, const Tensor& dy, const Tensor& dz) {
                                     const Tensor weights = weights_of(positive_weights, logits.device());
                                     cuda::mean_loss_gradient<cuda::BinaryCrossEntropyTerms>(logits, targets, weights,
                                                                                             dy, dz);
                                   }};

}  // namespace
}  // namespace lacuna
