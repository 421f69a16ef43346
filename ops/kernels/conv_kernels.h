// The ways to compute a convolution. conv.cpp chooses among them by shape and type, never by a stopwatch.
#pragma once

#include "core/tensor.h"

#include <compare>
#include <cstdint>

namespace lacuna {

/// Extents of a convolution: x [images, height, width, channels], weight [outputs, channels / groups, kernel_height,
/// kernel_width], y [images, out_height(), out_width(), outputs].
struct ConvShape {
  std::int64_t images, height, width, channels, outputs, kernel_height, kernel_width;
  std::int64_t stride, padding, groups;

  std::int64_t out_height() const { return (height + 2 * padding - kernel_height) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * padding - kernel_width) / stride + 1; }
  auto operator<=>(const ConvShape&) const = default;
};

// Each kernel family has the three products: y = x * weight (+ bias), dx (+)= dy * weight, dweight (+)= dy * x.
// Operands are contiguous, of one type; bias may be undefined. On `meta` they allocate their workspaces and do nothing
// else.

/// Plain loops, for f64 and for shapes that nothing else takes.
namespace direct {
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace direct

/// oneDNN's primitives on f32 NHWC images.
namespace onednn {
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace onednn

/// Products over gathered pixels on f32: any shape.
namespace gather {
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace gather

/// Minimal filtering F(4x4, 3x3), or F(2x2, 3x3) on very small images, on f32: 3x3, stride 1, padding 1, whole panels
/// of channels.
namespace winograd {
bool takes(const ConvShape& shape);
void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);
void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add);
void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add);
}  // namespace winograd

}  // namespace lacuna
