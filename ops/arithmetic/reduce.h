// Sums and means.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Sum of all elements, [] of x's type. Runs of 4096 elements are summed in f32 (f64 for an f64 x), and their sums in
/// f64.
struct Sum {
  enum Input { x };
  Shape shape;  // of x and its gradient
  static constexpr std::string_view name = "sum";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Sum>& saved, Grads& grads) const;
};

/// Mean of all elements, [] of x's type; summed as Sum.
struct Mean {
  enum Input { x };
  Shape shape;  // of x and its gradient
  static constexpr std::string_view name = "mean";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Mean>& saved, Grads& grads) const;
};

/// Sum of `tensor` [..., shape] over its leading axes, as `shape` in f32 (f64 for f64): the gradient of a tensor that
/// was repeated over them.
Tensor sum_over_leading(const Tensor& tensor, const Shape& shape);

}  // namespace lacuna
