// Fully connected layer.
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = x · wᵀ + b (+ r). x [..., K], weight [N, K], bias [N] or undefined; y [..., N] in x's type. The residual r has
/// y's shape and type; or it is undefined, or left out. On a GPU it is added within the product (GemmOptions::addend).
///
/// A frozen weight (its gradient is not wanted) needs no x: the layer saves nothing but the weight, which is a
/// parameter and lives anyway. That holds with a trained bias too, whose gradient is a sum of dy.
struct Linear {
  enum Input { x, weight, bias, residual };
  static constexpr std::string_view name = "linear";
  static constexpr OpKind kind = OpKind::linear;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {weight}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}}};
  static constexpr InputSet accumulates_into{x, weight, bias, residual};
  static constexpr InputSet matmul_operands{x, weight};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Linear>& saved, Grads& grads) const;
};

}  // namespace lacuna
