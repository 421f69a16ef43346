// Sums and means.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Sum of all elements, a scalar [] of x's type, added up in f32 (f64 for an f64 x).
struct Sum {
  enum Input { x };
  Shape shape;  // of x, and so of its gradient
  static constexpr std::string_view name = "sum";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Sum>& saved, Grads& grads) const;
};

/// Mean of all elements, a scalar [] of x's type, added up in f32 (f64 for an f64 x).
struct Mean {
  enum Input { x };
  Shape shape;  // of x, and so of its gradient
  static constexpr std::string_view name = "mean";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Mean>& saved, Grads& grads) const;
};

/// The sum of `tensor` over its leading axes, of `shape`, whose elements repeat in it; in f32 (f64 for f64): the
/// gradient of what was repeated.
Tensor sum_over_leading(const Tensor& tensor, const Shape& shape);

}  // namespace lacuna
