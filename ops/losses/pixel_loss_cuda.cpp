#include "ops/losses/pixel_loss_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/arithmetic/reduce_cuda.h"
#include "ops/losses/pixel_loss_kernels.h"

namespace lacuna {
namespace {

/// `labels` may be undefined; `size` has the extents of the labels.
cuda::LabelledPixels pixels_of(const PixelLossRule& rule, const Tensor& logits, const Shape& size, const Tensor& labels,
                               const Tensor& weights) {
  const Shape& shape = logits.shape();
  const auto axis = [&](int i) {
    return ResampledAxis{static_cast<std::int32_t>(shape[i]), static_cast<std::int32_t>(size[i]), Resampling::bilinear};
  };
  const bool is_u8 = labels.defined() && labels.dtype() == DType::u8;
  return {.logits = logits.data<const std::byte>(),
          .labels_u8 = is_u8 ? labels.data<const std::uint8_t>() : nullptr,
          .labels_i64 = labels.defined() && !is_u8 ? labels.data<const std::int64_t>() : nullptr,
          .weights = weights.defined() ? weights.data<const float>() : nullptr,
          .down = axis(1),
          .across = axis(2),
          .images = shape[0],
          .classes = shape[3],
          .ignored = rule.ignored,
          .label_smoothing = static_cast<float>(rule.label_smoothing)};
}

cuda::PixelLosses to_predictions(const Tensor& predictions) {
  const bool is_u8 = predictions.dtype() == DType::u8;
  return {.losses = nullptr,
          .weights = nullptr,
          .log_sums = nullptr,
          .predictions_u8 = is_u8 ? predictions.data<std::uint8_t>() : nullptr,
          .predictions_i32 = is_u8 ? nullptr : predictions.data<std::int32_t>()};
}

/// *to = Σ of values [count].
void sum_pixels(Stream stream, const float* values, std::int64_t count, double* partial, float* to) {
  cuda::sum_runs(stream, DType::f32, {.x = values, .partial = partial, .count = count, .run = PixelScratch::run});
  cuda::sum_in_order(stream, DType::f32,
                     {.in_f64 = partial, .count = (count + PixelScratch::run - 1) / PixelScratch::run, .y = to});
}

void forward_on_cuda(const PixelLossRule& rule, const Tensor& logits, const Tensor& labels, const Tensor& weights,
                     const Tensor& sums, const Tensor& predictions, const Tensor& loss) {
  const Stream stream = stream_of(logits.device());
  const PixelScratch scratch(logits, labels);
  const std::int64_t count = labels.count(), runs = scratch.classes.shape()[0], classes = logits.shape()[3];
  const cuda::LabelledPixels pixels = pixels_of(rule, logits, labels.shape(), labels, weights);
  cuda::PixelLosses to = to_predictions(predictions);
  to.losses = scratch.pixels.data<float>();
  to.weights = to.losses + count;
  to.log_sums = to.weights + count;
  cuda::pixel_losses(stream, logits.dtype(), pixels, to);
  sums.fill(0);
  if (rule.dice != 0) {
    cuda::pixel_class_sums(stream, logits.dtype(), pixels, to.log_sums, PixelScratch::run,
                           scratch.classes.data<float>());
    cuda::add_column_sums(stream, DType::f32,
                          {.x = scratch.classes.raw(),
                           .partial = nullptr,
                           .to = sums.data<float>() + 1,
                           .rows = runs,
                           .columns = 3 * classes,
                           .blocks = 1});
  }
  const Tensor totals = Tensor::empty({2}, DType::f32, logits.device(), Purpose::workspace);
  double* const partial = scratch.partial.data<double>();
  float* const total = totals.data<float>();
  sum_pixels(stream, to.losses, count, partial, total);
  sum_pixels(stream, to.weights, count, partial + runs, total + 1);
  cuda::finish_pixel_loss(stream, {.loss_sum = total,
                                   .weight_sum = total + 1,
                                   .sums = sums.data<float>(),
                                   .loss = loss.data<float>(),
                                   .classes = classes,
                                   .cross_entropy = static_cast<float>(rule.cross_entropy),
                                   .dice = static_cast<float>(rule.dice)});
}

void backward_on_cuda(const PixelLossRule& rule, const Tensor& logits, const Tensor& labels, const Tensor& weights,
                      const Tensor& sums, const Tensor& dy, const Tensor& dlogits) {
  const PixelScratch scratch(logits, labels);
  float* const log_sums = scratch.pixels.data<float>();
  cuda::pixel_gradients(stream_of(logits.device()), logits.dtype(),
                        pixels_of(rule, logits, labels.shape(), labels, weights),
                        {.sums = sums.data<const float>(),
                         .upstream = dy.data<const float>(),
                         .cross_entropy = static_cast<float>(rule.cross_entropy),
                         .dice = static_cast<float>(rule.dice),
                         .log_sums = log_sums,
                         .means = log_sums + labels.count(),
                         .dlogits = dlogits.raw()});
}

// Labels outside of the classes make the loss NaN: the host never waits for them.
const RegisterKernel cuda_check_pixels{check_pixel_labels, DeviceKind::cuda,
                                       [](const Tensor&, std::int64_t, std::int64_t) {}};
const RegisterKernel cuda_pixel_forward{pixel_loss_forward, DeviceKind::cuda, forward_on_cuda};
const RegisterKernel cuda_pixel_backward{pixel_loss_backward, DeviceKind::cuda, backward_on_cuda};
const RegisterKernel cuda_predict{
    predict_pixels, DeviceKind::cuda, [](const Tensor& logits, const Tensor& predictions) {
      cuda::predict_pixels(stream_of(logits.device()), logits.dtype(),
                           pixels_of({}, logits, predictions.shape(), {}, {}), to_predictions(predictions));
    }};

}  // namespace
}  // namespace lacuna
