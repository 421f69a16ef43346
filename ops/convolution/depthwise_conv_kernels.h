// Kernels of ops/convolution/depthwise_conv.h.
#pragma once

#include "core/kernel.h"
#include "core/tensor.h"

#include <cstdint>

namespace lacuna {

struct DepthwiseShape {
  std::int64_t images, height, width, channels, kernel, padding;
  std::int64_t out_height() const { return height + 2 * padding - kernel + 1; }
  std::int64_t out_width() const { return width + 2 * padding - kernel + 1; }
};

/// weight [C, 1, k, k] to taps [k, k, C]; `flipped`: rotated by 180 degrees, for the gradient of x.
inline constinit Kernel<void(const Tensor& weight, bool flipped, const Tensor& taps)> depthwise_taps{
    "depthwise_conv2d weights"};
/// y [images, out_height, out_width, C] = bias + x * taps, added to y if `add`; bias [C] or undefined.
inline constinit Kernel<void(const DepthwiseShape& s, const Tensor& x, const Tensor& taps, const Tensor& bias,
                             const Tensor& y, bool add)>
    depthwise_forward{"depthwise_conv2d"};
/// sums [parts, k, k, C] += dy * x. The image with number `first` + i in the batch belongs to part (first + i) % parts;
/// a part's images are added in ascending order.
inline constinit Kernel<void(const DepthwiseShape& s, const Tensor& x, const Tensor& dy, std::int64_t first,
                             const Tensor& sums)>
    depthwise_weight_sums{"depthwise_conv2d backward"};
/// dweight [C, 1, k, k] = the sums over the parts, in order.
inline constinit Kernel<void(const Tensor& sums, const Tensor& dweight)> depthwise_weight_gradient{
    "depthwise_conv2d weight gradient"};

}  // namespace lacuna
