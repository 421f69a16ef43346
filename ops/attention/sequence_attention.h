// Fused attention within sequences of unequal length.
#pragma once

#include "core/op.h"
#include "core/random.h"
#include "ops/shapes/sequences.h"

namespace lacuna {

/// y = dropout(softmax(scale · q·kᵀ)) · v for each head, within each of the sequences of k, v [1, T, D] with
/// D = heads · head_dim; computed as Attention is (ops/attention/attention.h). q and y: [1, T, D], or [1, N · n, D]
/// with n = `queries` > 0 queries a sequence, its first tokens. Padding is not attended to; its rows of y are 0.
///
/// window > 0: a token sees the tokens at most `window` places from it, and itself (Beltagy et al. 2020, "Longformer",
/// section 3.1), and `queries` is 0. Work is then proportional to the keys that are seen: the kernels are
/// CausalAttention's.
///
/// dropout: number (head · positions + query) · positions + key of the sequence's draws decides. `positions` is a
/// constant of the model, not below the longest sequence, so that batches of any composition draw the same mask.
struct SequenceAttention {
  enum Input { q, k, v };
  enum ExtraOutput { log_sums };  // as Attention's; without a window
  std::int64_t heads = 1;
  SequencesPtr sequences;
  std::int64_t queries = 0;
  std::int64_t window = 0;
  double scale = 0;  // 0: 1 / sqrt(head_dim)
  double dropout = 0;
  RandomStream stream = {};
  std::int64_t positions = 0;
  static constexpr std::string_view name = "sequence_attention";
  static constexpr OpKind kind = OpKind::matmul;
  static constexpr std::array saves{
      Save{.from = input(q), .need = Need::value, .for_grad_of = {q, k, v}, .groups = Groups::head},
      Save{.from = input(k), .need = Need::value, .for_grad_of = {q, k, v}, .groups = Groups::head},
      Save{.from = input(v), .need = Need::value, .for_grad_of = {q, k}, .groups = Groups::head},
      Save{.from = extra_output(log_sums), .need = Need::exact, .for_grad_of = {q, k, v}, .when = When::lossless},
      Save{.from = output, .need = Need::value, .for_grad_of = {q, k, v}, .when = When::held}};
  static constexpr InputSet matmul_operands{q, k, v};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(const Tensor& dy, const Saved<SequenceAttention>& saved, Grads& grads) const;
};

}  // namespace lacuna
