// Fully connected layer with products of low rank beside it (Hu et al. 2022, LoRA).
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = x · wᵀ + b, to whose columns [first_i, first_i + N_i) scale · z_i · up_iᵀ is added, for one to three pairs.
/// x [..., K], weight [N, K], bias [N] or undefined, z_i [..., r_i], up_i [N_i, r_i], absent pairs undefined; y [...,
/// N] in x's type. Weight, bias and up_i are f32, or f64 if x is. All products gather in one tensor.
///
/// As in Linear, a frozen weight needs no x: of this layer's inputs z_i alone, r_i values a row, is then saved.
struct LowRankLinear {
  enum Input { x, weight, bias, z0, up0, z1, up1, z2, up2 };
  static constexpr int pairs = 3;
  double scale = 1;
  std::array<std::int64_t, pairs> first{}, columns{};  // of y: first_i and N_i
  static constexpr std::string_view name = "low_rank_linear";
  static constexpr OpKind kind = OpKind::linear;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {weight}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
                                    Save{.from = input(z0), .need = Need::value, .for_grad_of = {up0}},
                                    Save{.from = input(up0), .need = Need::exact, .for_grad_of = {z0}},
                                    Save{.from = input(z1), .need = Need::value, .for_grad_of = {up1}},
                                    Save{.from = input(up1), .need = Need::exact, .for_grad_of = {z1}},
                                    Save{.from = input(z2), .need = Need::value, .for_grad_of = {up2}},
                                    Save{.from = input(up2), .need = Need::exact, .for_grad_of = {z2}}};
  static constexpr InputSet accumulates_into{x, z0, z1, z2};
  static constexpr InputSet matmul_operands{x, weight};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<LowRankLinear>& saved, Grads& grads) const;
};

}  // namespace lacuna
