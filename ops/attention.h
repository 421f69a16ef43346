// Multi-head self-attention in one op: nothing of size L×L outlives a block of queries.
#pragma once

#include "core/op.h"

namespace lacuna {

/// softmax(scale · q·kᵀ)·v head by head. qkv [B, L, 3·D] holds q | k | v, each D = heads · head_dim wide (timm's
/// order); output [B, n, D] with n = `queries`. Backward has the probabilities again from q and k, as Dao et al. 2022
/// ("FlashAttention", algorithm 4) do, but with all keys of a block of queries at hand: neither the denominators nor
/// the output need be kept, and where q and k are read approximately the rows are a softmax all the same.
struct Attention {
  enum Input { qkv };
  std::int64_t heads = 1;
  double scale = 0;          // 0: 1 / sqrt(head_dim)
  std::int64_t queries = 0;  // only the first so many tokens ask, 0: all L; every token is attended to
  static constexpr std::string_view name = "attention";
  static constexpr std::array saves{
      Save{.from = input(qkv), .need = Need::value, .for_grad_of = {qkv}, .groups = Groups::head}};
  static constexpr InputSet matmul_operands{qkv};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<Attention>& saved, Grads& grads) const;
};

}  // namespace lacuna
