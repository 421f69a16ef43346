// Two-dimensional convolution over NHWC images.
#pragma once

#include "core/op.h"
#include "ops/convolution/padding.h"

namespace lacuna {

/// Cross-correlation with zero padding: y[n, i, j, o] = bias[o] + Σ x[n, i·stride + p·dilation − top, j·stride +
/// q·dilation − left, c] · weight[o, c, p, q], the sum over c of o's group and the taps p, q of the window. x [N, H, W,
/// C], weight [O, C / groups, kh, kw] (the order of files), bias [O] or undefined; y [N, (H + top + bottom − kh) /
/// stride + 1, (W + left + right − kw) / stride + 1, O]. A dilation above 1 goes with stride 1 and a padding of
/// dilation · (kernel − 1) / 2 on all sides, so that y has x's height and width.
struct Conv2d {
  enum Input { x, weight, bias };
  std::int64_t stride = 1;
  Padding padding{};
  std::int64_t groups = 1, dilation = 1;
  // Extents for backward: if only one of x and weight is saved, it does not tell those of the other.
  std::int64_t kernel_height = 1, kernel_width = 1;
  std::int64_t height = 0, width = 0;  // x's
  static constexpr std::string_view name = "conv2d";
  static constexpr OpKind kind = OpKind::convolution;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {weight}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}}};
  static constexpr InputSet accumulates_into{x, weight, bias};
  static constexpr InputSet matmul_operands{x, weight};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Conv2d>& saved, Grads& grads) const;
};

}  // namespace lacuna
