// Fully connected layer whose outputs are scaled, as layer scale does (Touvron et al. 2021, "Going deeper with image
// transformers").
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = scale ∘ (x · wᵀ + b) (+ r). x [..., K], weight [N, K], bias [N] or undefined, scale [N]; y [..., N] in x's type,
/// and so the residual r, which is undefined or left out if there is none (ops/products/linear.h). Weight, bias and
/// scale are f32, or f64 if x is.
///
/// The gradient of scale follows from those of weight and bias: Σ dy ∘ (x·wᵀ + b) = Σₖ w ∘ (dyᵀ·x) + b ∘ Σ dy. So the
/// unscaled result is not saved.
struct ScaledLinear {
  enum Input { x, weight, bias, scale, residual };
  static constexpr std::string_view name = "scaled_linear";
  static constexpr OpKind kind = OpKind::linear;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {weight, scale}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x, scale}},
                                    Save{.from = input(bias), .need = Need::exact, .for_grad_of = {scale}},
                                    Save{.from = input(scale), .need = Need::exact, .for_grad_of = {x, weight, bias}}};
  static constexpr InputSet accumulates_into{x, residual};
  static constexpr InputSet matmul_operands{x, weight};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<ScaledLinear>& saved, Grads& grads) const;
};

}  // namespace lacuna
