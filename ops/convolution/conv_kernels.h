// Kernels of ops/convolution/conv.h.
#pragma once

#include "core/kernel.h"
#include "ops/convolution/padding.h"

#include <compare>
#include <cstdint>

namespace lacuna {

class Operand;
class Tensor;

/// Extents of a convolution: x [images, height, width, channels], weight [outputs, channels / groups, kernel_height,
/// kernel_width], y [images, out_height(), out_width(), outputs].
struct ConvShape {
  std::int64_t images, height, width, channels, outputs, kernel_height, kernel_width;
  std::int64_t stride;
  Padding padding;
  std::int64_t groups;

  std::int64_t out_height() const { return padding.rows_of(height, kernel_height, stride); }
  std::int64_t out_width() const { return padding.columns_of(width, kernel_width, stride); }
  auto operator<=>(const ConvShape&) const = default;
};

// Images are of one floating type, parameters in its compute type. Workspaces are the kernels' own.

/// y = x * weight (+ bias). bias may be undefined.
inline constinit Kernel<void(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Tensor& y)>
    conv2d_forward{"conv2d"};
/// dx (+)= dy * weight.
inline constinit Kernel<void(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx,
                             bool add)>
    conv2d_input_gradient{"conv2d input gradient"};
/// dweight (+)= dy * x.
inline constinit Kernel<void(const ConvShape& shape, const Operand& x, const Tensor& dy, const Tensor& dweight,
                             bool add)>
    conv2d_weight_gradient{"conv2d weight gradient"};
/// dbias += Σ of dy over images and pixels.
inline constinit Kernel<void(const Tensor& dy, const Tensor& dbias)> conv2d_bias_gradient{"conv2d bias gradient"};

}  // namespace lacuna
