// The loss of labels that do not exclude each other.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

#include <span>
#include <vector>

namespace lacuna {

/// Binary cross entropy of sigmoid(logits) with targets, mean over all elements, as
/// torch.nn.BCEWithLogitsLoss(pos_weight): a scalar [], f32 (f64 for f64 logits). targets: the shape of logits, in f32
/// or f64, each in [0, 1].
struct BinaryCrossEntropy {
  std::vector<double> positive_weights{};  // [last axis]: factors of −target · log sigmoid(logit); empty: all 1

  enum Input { logits, targets };
  static constexpr std::string_view name = "binary_cross_entropy";
  // The slope of sigmoid is a quarter at most, and so errors of logits shrink on their way into the gradient.
  static constexpr std::array saves{Save{.from = input(logits), .need = Need::value, .for_grad_of = {logits}},
                                    Save{.from = input(targets), .need = Need::exact, .for_grad_of = {logits}}};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<BinaryCrossEntropy>& saved, Grads& grads) const;
};

inline constinit Kernel<void(std::span<const double> positive_weights, const Tensor& logits, const Tensor& targets,
                             const Tensor& loss)>
    binary_cross_entropy_forward{"binary_cross_entropy"};
inline constinit Kernel<void(std::span<const double> positive_weights, const Tensor& logits, const Tensor& targets,
                             const Tensor& dy, const Tensor& dz)>
    binary_cross_entropy_backward{"binary_cross_entropy backward"};

}  // namespace lacuna
