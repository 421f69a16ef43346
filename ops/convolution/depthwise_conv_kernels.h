// Kernels of ops/convolution/depthwise_conv.h.
#pragma once

#include "core/kernel.h"
#include "core/tensor.h"

#include <cstdint>

namespace lacuna {

/// Window [i, j] begins at row i·stride − top and column j·stride − left of the image. The image's own rows and columns
/// lie `spread` apart there, with zeros between them. Stride and spread are 1 or 2, and one of them is 1.
struct DepthwiseShape {
  std::int64_t images, height, width, channels, kernel, stride, spread, top, left, out_height, out_width;

  /// The image's own row at `row`; negative: zeros are there.
  std::int64_t row_at(std::int64_t row) const { return place_at(row, height); }
  std::int64_t column_at(std::int64_t column) const { return place_at(column, width); }

 private:
  std::int64_t place_at(std::int64_t place, std::int64_t extent) const {
    const std::int64_t own = place >> (spread - 1);
    return (place & (spread - 1)) == 0 && own < extent ? own : -1;
  }
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
