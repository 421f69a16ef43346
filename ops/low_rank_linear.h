// Fully connected layer with a second product of low rank beside it (Hu et al. 2022, LoRA).
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = x · wᵀ + b + scale · z · upᵀ. x [..., K], weight [N, K], bias [N] or undefined, z [..., r], up [N, r];
/// y [..., N] in x's type. Weight, bias and up are f32, or f64 if x is. Both products gather in one tensor.
///
/// As in Linear, a frozen weight needs no x: of this layer's inputs z alone, r values a row, is then saved.
struct LowRankLinear {
  enum Input { x, weight, bias, z, up };
  double scale = 1;
  static constexpr std::string_view name = "low_rank_linear";
  static constexpr OpKind kind = OpKind::linear;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {weight}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
                                    Save{.from = input(z), .need = Need::value, .for_grad_of = {up}},
                                    Save{.from = input(up), .need = Need::exact, .for_grad_of = {z}}};
  static constexpr InputSet accumulates_into{x, z};
  static constexpr InputSet matmul_operands{x, weight};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<LowRankLinear>& saved, Grads& grads) const;
};

}  // namespace lacuna
