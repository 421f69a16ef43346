// Normalisation of a token's channels.
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = (x - mean) / sqrt(variance + eps) · weight + bias over the last axis, with the biased variance (Ba, Kiros and
/// Hinton 2016, eq. 3; as torch.nn.LayerNorm). x, y: [..., C]; weight, bias: [C]; mean, rstd: [rows, 1].
/// The bias may be absent. Arithmetic and the statistics are in f32 (f64 for an f64 x), whatever the type of x.
struct LayerNorm {
  enum Input { x, weight, bias };
  enum ExtraOutput { mean, rstd };
  double eps = 1e-6;
  static constexpr std::string_view name = "layer_norm";
  static constexpr OpKind kind = OpKind::norm;
  static constexpr std::array saves{
      Save{.from = input(x), .need = Need::value, .for_grad_of = {x, weight}, .groups = Groups::token},
      Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
      Save{.from = extra_output(mean), .need = Need::exact, .for_grad_of = {x, weight}},
      Save{.from = extra_output(rstd), .need = Need::exact, .for_grad_of = {x, weight}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x)), rows_of(extra_output(mean)),
                                             rows_of(extra_output(rstd)), all_of(input(weight)), all_of(input(bias))};
  static constexpr InputSet accumulates_into{x};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<LayerNorm>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<LayerNorm>& from, const Tensor& out) const;
};

}  // namespace lacuna
