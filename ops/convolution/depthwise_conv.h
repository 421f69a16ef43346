// Depthwise convolution over NHWC images.
#pragma once

#include "core/op.h"
#include "ops/convolution/padding.h"

namespace lacuna {

/// Cross-correlation of each channel with a square window of its own, with zero padding: y[n, i, j, c] = bias[c] +
/// Σ x[n, i·stride + p − top, j·stride + q − left, c] · weight[c, 0, p, q]. x [N, H, W, C], weight [C, 1, k, k], bias
/// [C] or undefined; y [N, (H + top + bottom − k) / stride + 1, (W + left + right − k) / stride + 1, C]. Weight and
/// bias are f32, or f64 if x is.
struct DepthwiseConv2d {
  enum Input { x, weight, bias };
  Padding padding{};
  std::int64_t kernel = 1, stride = 1;
  std::int64_t height = 0, width = 0;  // x's
  /// Windows that the op computes; Conv2d computes the others.
  static constexpr bool computes(std::int64_t kernel, std::int64_t stride, const Padding& padding) {
    return kernel <= 16 && (stride == 1 || stride == 2) && padding.least() >= 0 && padding.most() < kernel;
  }
  static constexpr std::string_view name = "depthwise_conv2d";
  static constexpr OpKind kind = OpKind::convolution;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {weight}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}}};
  static constexpr InputSet accumulates_into{x};
  static constexpr InputSet matmul_operands{x, weight};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<DepthwiseConv2d>& saved, Grads& grads) const;
};

}  // namespace lacuna
