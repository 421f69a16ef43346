// Losses, and the count of correct predictions.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Cross entropy of softmax(logits) against targets, mean over the batch, as torch.nn.CrossEntropyLoss: a scalar [],
/// f32 (f64 for f64 logits). logits: [N, C]; targets: i64 [N], each in [0, C), or probabilities [N, C] in f32 or f64.
/// Label smoothing mixes the targets with the uniform distribution (Szegedy et al. 2016, section 7). A label outside
/// [0, C) is an Error that names its row. log_sum_exp: [N, 1].
struct CrossEntropy {
  enum Input { logits, targets };
  enum ExtraOutput { log_sum_exp };
  double label_smoothing = 0;
  static constexpr std::string_view name = "cross_entropy";
  static constexpr std::array saves{
      Save{.from = input(logits), .need = Need::exact, .for_grad_of = {logits}},
      Save{.from = input(targets), .need = Need::exact, .for_grad_of = {logits}},
      Save{.from = extra_output(log_sum_exp), .need = Need::exact, .for_grad_of = {logits}}};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<CrossEntropy>& saved, Grads& grads) const;
};

}  // namespace lacuna
