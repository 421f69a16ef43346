// Fused attention of decoders: within sequences, each token sees itself and tokens before it, and maybe some after it.
#pragma once

#include "core/op.h"
#include "core/random.h"
#include "ops/operand.h"
#include "ops/shapes/sequences.h"

#include <vector>

namespace lacuna {

/// y = dropout(softmax(scores)) · v for each head, within each of the sequences of k, v [1, T, kv_heads · head_dim]:
///
///   score = scale · q·k                        heads is a multiple of kv_heads: consecutive heads of q share one of k
///   score = soft_cap · tanh(score / soft_cap)  if soft_cap is not 0 (Gemma 2)
///   score = score + slope · (key - query)      if there are slopes, one a head (Press et al. 2022, "ALiBi")
///   score = score + scale · bf16(slope · bf16(key))      the same if rounds_alibi (transformers' Falcon)
///
/// for query - window < key <= query + ahead, positions within the sequence; window 0: no bound. q and y: [1, S, heads
/// · head_dim]. The rows of q are the last ones of each sequence: `queries` has as many sequences, none of which is
/// longer; null: q has all rows, S = T. So k and v may be a cache that holds the rows before. Padding is not attended
/// to; its rows of y are 0.
///
/// No matrix of queries by keys is kept; backward computes the probabilities again, a block of queries at a time (Dao
/// et al. 2022, "FlashAttention", algorithm 4). Work is proportional to the keys that are seen. k and v are not
/// repeated for the heads that share them.
///
/// dropout: number (head · positions + query) · positions + key of the sequence's draws decides. `positions` is a
/// constant of the model, not below the longest sequence, so that batches of any composition draw the same mask.
struct CausalAttention {
  enum Input { q, k, v };
  enum ExtraOutput {
    log_sums
  };  // f32 [sequences, heads, length], logarithms of the denominators: for cuDNN's backward
  std::int64_t heads = 1, kv_heads = 1;
  SequencesPtr sequences = nullptr;  // of k and v
  SequencesPtr queries = nullptr;    // of q
  double scale = 0;                  // 0: 1 / sqrt(head_dim)
  std::int64_t window = 0, ahead = 0;
  double soft_cap = 0;
  std::vector<double> alibi = {};  // slopes [heads]
  bool rounds_alibi = false;
  double dropout = 0;
  RandomStream stream = {};
  std::int64_t positions = 0;
  static constexpr std::string_view name = "causal_attention";
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
  void backward(const Tensor& dy, const Saved<CausalAttention>& saved, Grads& grads) const;
};

/// CausalAttention's operands in backward. y and log_sums: undefined if they were not kept.
struct CausalSaved {
  Operand q, k, v;  // v: undefined unless the gradient of q or k is wanted
  Tensor y{}, log_sums{};
};
/// CausalAttention's backward for another op that is computed by it and numbers q, k and v alike.
void causal_gradients(const CausalAttention& op, const Tensor& dy, const CausalSaved& saved, Grads& grads);

/// ALiBi's slopes: 2^(-8 i / n), i = 1 to n, for the largest power of two n within `heads`, then 2^(-4 i / n) for odd
/// i.
std::vector<double> alibi_slopes(std::int64_t heads);

}  // namespace lacuna
