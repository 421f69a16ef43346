#include "ops/losses/linear_cross_entropy_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/cuda/map.h"
#include "ops/losses/linear_cross_entropy.h"
#include "ops/losses/loss_cuda.h"
#include "ops/losses/class_formulas.h"

namespace lacuna {
namespace {

cuda::Targets targets_of(const Tensor& labels, double smoothing, std::int64_t ignored) {
  return {.labels = labels.data<const std::int64_t>(),
          .probabilities = nullptr,
          .label_smoothing = smoothing,
          .ignores = true,
          .ignored = ignored};
}

// The host does not wait for labels: one outside of the classes makes the loss NaN.
const RegisterKernel cuda_check{check_token_labels, DeviceKind::cuda, [](const Tensor&, std::int64_t, std::int64_t) {}};

const RegisterKernel cuda_mean{linear_cross_entropy_mean, DeviceKind::cuda,
                               [](std::int64_t ignored, const Tensor& labels, const Tensor& sum, const Tensor& loss) {
                                 cuda::divide_by_counted(stream_of(loss.device()),
                                                         {.labels = labels.data<const std::int64_t>(),
                                                          .count = labels.count(),
                                                          .ignored = ignored,
                                                          .value = nullptr,
                                                          .value_in_f64 = sum.data<const double>(),
                                                          .to = loss.data<float>()});
                               }};

const RegisterKernel cuda_gradient{
    linear_cross_entropy_gradient, DeviceKind::cuda,
    [](double smoothing, std::int64_t ignored, double soft_cap, const Tensor& dy, const Tensor& labels,
       const Tensor& all_labels, const Tensor& logits) {
      const Stream stream = stream_of(logits.device());
      const Tensor scale = Tensor::empty({1}, DType::f32, logits.device(), Purpose::workspace);
      cuda::divide_by_counted(stream, {.labels = all_labels.data<const std::int64_t>(),
                                       .count = all_labels.count(),
                                       .ignored = ignored,
                                       .value = dy.data<const float>(),
                                       .value_in_f64 = nullptr,
                                       .to = scale.data<float>()});
      cuda::row_gradients(stream, logits.dtype(),
                          {.logits = logits.data<const std::byte>(),
                           .targets = targets_of(labels, smoothing, ignored),
                           .log_sums = nullptr,
                           .scale = scale.data<const float>(),
                           .divisor = 1,
                           .dz = logits.raw(),
                           .rows = logits.rows(),
                           .classes = logits.shape().back(),
                           .inverse_cap = soft_cap == 0 ? 0.0F : static_cast<float>(1 / soft_cap)});
    }};

const RegisterKernel cuda_cap{cap_logits, DeviceKind::cuda, [](double soft_cap, const Tensor& logits) {
                                cuda::map(stream_of(logits.device()), logits.dtype(), logits.count(),
                                          formula::SoftCap{soft_cap}, logits.data<const std::byte>(), logits.raw());
                              }};

const RegisterKernel cuda_scale_by{
    scale_by, DeviceKind::cuda, [](const Tensor& dy, double factor, const Tensor& x, const Tensor& y) {
      cuda::scale_by(stream_of(y.device()), y.dtype(), dy.data<const float>(), static_cast<float>(factor), y.count(),
                     x.data<const std::byte>(), y.raw());
    }};

}  // namespace
}  // namespace lacuna
