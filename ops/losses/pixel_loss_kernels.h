// Kernels of ops/losses/pixel_loss.h. Parameters and sums have the logits' compute type.
#pragma once

#include "core/kernel.h"
#include "core/tensor.h"
#include "ops/shapes/resize_axis.h"

#include <cstdint>

namespace lacuna {

struct PixelLossRule {
  std::int64_t ignored;
  double cross_entropy, dice, label_smoothing;
};

/// labels [N, H, W] in u8 or i64, weights [C] or undefined; sums [1 + 3 C] and predictions [N, H, W] as the op has
/// them. loss [].
inline constinit Kernel<void(const PixelLossRule& rule, const Tensor& logits, const Tensor& labels,
                             const Tensor& weights, const Tensor& sums, const Tensor& predictions, const Tensor& loss)>
    pixel_loss_forward{"pixel_loss"};
/// dlogits as logits, of dy [].
inline constinit Kernel<void(const PixelLossRule& rule, const Tensor& logits, const Tensor& labels,
                             const Tensor& weights, const Tensor& sums, const Tensor& dy, const Tensor& dlogits)>
    pixel_loss_backward{"pixel_loss backward"};
/// Rejects labels outside of the classes.
inline constinit Kernel<void(const Tensor& labels, std::int64_t ignored, std::int64_t classes)> check_pixel_labels{
    "pixel_loss labels"};

/// The values that kernels for cuda keep of each pixel while they run.
struct PixelScratch {
  static constexpr std::int64_t run = 4096;  // pixels whose sums go together
  Tensor pixels;                             // f32 [3, N · H · W]
  Tensor partial;                            // f64 [2, runs]
  Tensor classes;                            // f32 [runs, 3 C]
  PixelScratch(const Tensor& logits, const Tensor& labels)
      : pixels(make({3, labels.count()}, DType::f32, logits)),
        partial(make({2, (labels.count() + run - 1) / run}, DType::f64, logits)),
        classes(make({(labels.count() + run - 1) / run, 3 * logits.shape().back()}, DType::f32, logits)) {}

 private:
  static Tensor make(const Shape& shape, DType dtype, const Tensor& logits) {
    return Tensor::empty(shape, dtype, logits.device(), Purpose::workspace);
  }
};

/// The class of the largest of the resized logits: u8 or i32 [N, H, W].
inline constinit Kernel<void(const Tensor& logits, const Tensor& predictions)> predict_pixels{"predicted pixels"};

}  // namespace lacuna
