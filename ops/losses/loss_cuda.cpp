#include "ops/losses/loss_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/arithmetic/reduce_cuda.h"
#include "ops/losses/loss_kernels.h"

namespace lacuna {
namespace {

cuda::Targets targets_of(const Tensor& targets, double label_smoothing) {
  const bool labels = targets.dtype() == DType::i64;
  return {.labels = labels ? targets.data<const std::int64_t>() : nullptr,
          .probabilities = labels ? nullptr : targets.data<const float>(),
          .label_smoothing = label_smoothing};
}

// The host does not wait for labels: one outside of the classes makes the loss NaN.
const RegisterKernel cuda_check_labels{check_labels, DeviceKind::cuda, [](const Tensor&, std::int64_t) {}};

const RegisterKernel cuda_forward{cross_entropy_forward, DeviceKind::cuda,
                                  [](double label_smoothing, const Tensor& logits, const Tensor& targets,
                                     const Tensor& log_sums, const Tensor& losses, const Tensor& loss) {
                                    const Stream stream = stream_of(logits.device());
                                    cuda::row_losses(stream, logits.dtype(),
                                                     {.logits = logits.data<const std::byte>(),
                                                      .targets = targets_of(targets, label_smoothing),
                                                      .log_sums = log_sums.data<float>(),
                                                      .losses = losses.data<float>(),
                                                      .rows = logits.rows(),
                                                      .classes = logits.shape().back()});
                                    cuda::sum_in_order(stream, DType::f32,
                                                       {.in_f32 = losses.data<const float>(),
                                                        .count = losses.count(),
                                                        .y = loss.raw(),
                                                        .factor = 1.0 / static_cast<double>(losses.count())});
                                  }};
const RegisterKernel cuda_backward{cross_entropy_backward, DeviceKind::cuda,
                                   [](double label_smoothing, const Tensor& logits, const Tensor& targets,
                                      const Tensor& log_sums, const Tensor& dy, const Tensor& dz) {
                                     cuda::row_gradients(stream_of(logits.device()), logits.dtype(),
                                                         {.logits = logits.data<const std::byte>(),
                                                          .targets = targets_of(targets, label_smoothing),
                                                          .log_sums = log_sums.data<const float>(),
                                                          .scale = dy.data<const float>(),
                                                          .divisor = static_cast<float>(logits.rows()),
                                                          .dz = dz.raw(),
                                                          .rows = logits.rows(),
                                                          .classes = logits.shape().back()});
                                   }};

}  // namespace
}  // namespace lacuna
