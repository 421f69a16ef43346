#include "ops/loss_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/loss_kernels.h"

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
                                    cuda::cross_entropy_forward(stream_of(logits.device()), logits.dtype(),
                                                                {.logits = logits.data<const std::byte>(),
                                                                 .targets = targets_of(targets, label_smoothing),
                                                                 .log_sums = log_sums.data<float>(),
                                                                 .losses = losses.data<float>(),
                                                                 .loss = loss.data<float>(),
                                                                 .rows = logits.rows(),
                                                                 .classes = logits.shape().back()});
                                  }};
const RegisterKernel cuda_backward{cross_entropy_backward, DeviceKind::cuda,
                                   [](double label_smoothing, const Tensor& logits, const Tensor& targets,
                                      const Tensor& log_sums, const Tensor& dy, const Tensor& dz) {
                                     cuda::cross_entropy_backward(stream_of(logits.device()), logits.dtype(),
                                                                  {.logits = logits.data<const std::byte>(),
                                                                   .targets = targets_of(targets, label_smoothing),
                                                                   .log_sums = log_sums.data<const float>(),
                                                                   .dy = dy.data<const float>(),
                                                                   .dz = dz.raw(),
                                                                   .rows = logits.rows(),
                                                                   .classes = logits.shape().back()});
                                   }};

}  // namespace
}  // namespace lacuna
