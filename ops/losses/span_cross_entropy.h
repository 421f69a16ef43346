// The loss of extractive question answering.
#pragma once

#include "core/kernel.h"
#include "core/op.h"
#include "ops/shapes/sequences.h"

namespace lacuna {

/// For each column c of logits [1, T, S] and each sequence the cross entropy of the softmax over its tokens with
/// position positions[n, c] (i64 [N, S]); a position that is negative or not within the sequence's tokens is left out.
/// The mean over the sequences that count, and of that the mean over the columns, as BertForQuestionAnswering with
/// start and end; padding takes no part in the softmax. A scalar [] in the compute type.
struct SpanCrossEntropy {
  enum Input { logits, positions };
  SequencesPtr sequences;
  static constexpr std::string_view name = "span_cross_entropy";
  static constexpr std::array saves{Save{.from = input(logits), .need = Need::exact, .for_grad_of = {logits}},
                                    Save{.from = input(positions), .need = Need::exact, .for_grad_of = {logits}}};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<SpanCrossEntropy>& saved, Grads& grads) const;
};

inline constinit Kernel<void(const Sequences& sequences, const Tensor& logits, const Tensor& positions,
                             const Tensor& loss)>
    span_cross_entropy_forward{"span_cross_entropy"};
inline constinit Kernel<void(const Sequences& sequences, const Tensor& logits, const Tensor& positions,
                             const Tensor& dy, const Tensor& dz)>
    span_cross_entropy_backward{"span_cross_entropy backward"};

}  // namespace lacuna
