// The norm of queries and keys together with their rotation.
#pragma once

#include "core/op.h"
#include "ops/attention/rotary.h"
#include "ops/norms/rms_norm.h"

namespace lacuna {

/// rotary(norm(x)): RmsNorm of each head (`norm.heads` = `rotary.heads`: Qwen 3, Gemma 3) or of all of a row (1: OLMo
/// 2), then Rotary. x, y: [1, T, heads · head_dim]; weight, rstd: as RmsNorm. One op, so that attention's input can be
/// made again from x, and nothing lies between them.
struct NormedRotary {
  enum Input { x, weight };
  enum ExtraOutput { rstd };
  RmsNorm norm = {};
  Rotary rotary = {};
  static constexpr std::string_view name = "normed_rotary";
  static constexpr OpKind kind = OpKind::norm;
  static constexpr std::array saves{
      Save{.from = input(x), .need = Need::value, .for_grad_of = {x, weight}, .groups = Groups::token},
      Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
      Save{.from = extra_output(rstd), .need = Need::exact, .for_grad_of = {x, weight}}};
  static constexpr std::array rematerializes{rows_of(input(x)), rows_of(extra_output(rstd)), all_of(input(weight))};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<NormedRotary>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<NormedRotary>& from, const Tensor& out) const;
};

}  // namespace lacuna
