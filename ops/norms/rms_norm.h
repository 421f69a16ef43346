// Normalisation of a token's channels by their root mean square.
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = x / sqrt(mean x² + eps) · (offset + weight) over the last axis, or over each of `heads` equal parts of it (Zhang
/// and Sennrich 2019, eq. 4). x, y: [..., heads · C]; weight: [C]; rstd: [rows, heads]. offset 0 as torch.nn.RMSNorm, 1
/// as transformers' Gemma. Arithmetic and rstd are in f32 (f64 for an f64 x), whatever the type of x.
struct RmsNorm {
  enum Input { x, weight };
  enum ExtraOutput { rstd };
  double eps = 1e-6;
  double offset = 0;
  std::int64_t heads = 1;
  static constexpr std::string_view name = "rms_norm";
  static constexpr OpKind kind = OpKind::norm;
  static constexpr std::array saves{
      Save{.from = input(x), .need = Need::value, .for_grad_of = {x, weight}, .groups = Groups::token},
      Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
      Save{.from = extra_output(rstd), .need = Need::exact, .for_grad_of = {x, weight}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x)), rows_of(extra_output(rstd)),
                                             all_of(input(weight))};
  static constexpr InputSet accumulates_into{x};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<RmsNorm>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<RmsNorm>& from, const Tensor& out) const;
};

}  // namespace lacuna
