// Multi-head self-attention in one op: nothing of size L×L outlives a block of queries.
#pragma once

#include "core/op.h"

namespace lacuna {

/// softmax(scale · q·kᵀ)·v head by head. qkv [B, L, 3·D] holds q | k | v, each D = heads · head_dim wide (timm's
/// order); output [B, n, D] with n = `queries`. The forward pass keeps the logarithm of each softmax's denominator,
/// from which backward has the probabilities again (Dao et al. 2022, "FlashAttention", algorithms 1 and 4). It makes
/// each row of them sum to one, and finds Σ_j p_ij dp_ij from them instead of from the output: what is read
/// approximately stays a softmax, and the output is not needed.
struct Attention {
  enum Input { qkv };
  std::int64_t heads = 1;
  double scale = 0;          // 0: 1 / sqrt(head_dim)
  std::int64_t queries = 0;  // only the first so many tokens ask, 0: all L; every token is attended to
  static constexpr std::string_view name = "attention";
  // aux(0): ln Σ_j exp(scale · q_i·k_j), compute type, [B·H·n, 1].
  static constexpr std::array saves{
      Save{.from = input(qkv), .need = Need::value, .for_grad_of = {qkv}, .groups = Groups::head},
      Save{.from = aux(0), .need = Need::exact, .for_grad_of = {qkv}}};
  static constexpr InputSet factors{qkv};
  std::int64_t multiply_adds(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& aux) const;
  void backward(Tensor dy, const Saved<Attention>& saved, Grads& grads) const;
};

}  // namespace lacuna
