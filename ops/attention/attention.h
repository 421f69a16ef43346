// Fused multi-head attention: one op that keeps no matrix of queries by keys.
#pragma once

#include "core/op.h"
#include "core/random.h"

namespace lacuna {

// Both ops compute, for each sample and head,
//
//   y = dropout(softmax(scale · q·kᵀ + bias)) · v
//
// Backward recomputes the probabilities from q and k, a block of queries at a time (Dao et al. 2022, "FlashAttention",
// algorithm 4). All keys of a block are at hand, so neither the denominators nor the output are kept, and each row sums
// to one even if q and k are approximate. cuDNN on cuda reads both: denominators are kept there, and the output if
// another op keeps it anyway; otherwise, and if q and k may be approximate, forward runs again.
//
// bias (optional): [W, H or 1, Lq or 1, Lk] of q's type, where W divides the batch size B: sample b uses bias[b % W].
// W = 1 is shared by the batch (Swin's relative position bias), W = B is one per sample, W = windows per image is
// Swin's shifted-window mask. Masked keys are given a large negative number or -inf.
//
// key_lengths (optional): i64 [B], each in [0, Lk]. Keys at or beyond a sample's length have probability exactly 0 and
// gradient 0; they are not read. Length 0 gives y = 0 and zero gradients. Queries beyond the length are computed as any
// other.
//
// dropout: each probability is 0 with probability `dropout` and divided by 1 - dropout otherwise. Number
// (head · Lq + query) · Lk + key of the sample's draws decides, so that backward and recomputation see the same draws
// and nothing is stored.

/// Self-attention. qkv [B, L, 3·D] holds q | k | v, each D = heads · head_dim wide (timm's order); y [B, n, D] with
/// n = `queries`; Lq is n and Lk is L above.
struct Attention {
  enum Input { qkv, bias, key_lengths };
  enum ExtraOutput { log_sums };  // f32 [B, heads, n], logarithms of the denominators: where backward can use them
  std::int64_t heads = 1;
  double scale = 0;          // 0: 1 / sqrt(head_dim)
  std::int64_t queries = 0;  // only the first n tokens are queries, 0: all L; all L are keys
  double dropout = 0;
  RandomStream stream = {};
  static constexpr std::string_view name = "attention";
  static constexpr OpKind kind = OpKind::matmul;
  static constexpr std::array saves{
      Save{.from = input(qkv), .need = Need::value, .for_grad_of = {qkv, bias}, .groups = Groups::head},
      Save{.from = input(bias), .need = Need::exact, .for_grad_of = {qkv, bias}},
      Save{.from = input(key_lengths), .need = Need::exact, .for_grad_of = {qkv, bias}},
      Save{.from = extra_output(log_sums), .need = Need::exact, .for_grad_of = {qkv}, .when = When::lossless},
      Save{.from = output, .need = Need::value, .for_grad_of = {qkv}, .when = When::held}};
  static constexpr InputSet matmul_operands{qkv};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(const Tensor& dy, const Saved<Attention>& saved, Grads& grads) const;
};

/// Attention over q [B, Lq, D] and k, v [B, Lk, D], D = heads · head_dim; y [B, Lq, D].
struct CrossAttention {
  enum Input { q, k, v, bias, key_lengths };
  std::int64_t heads = 1;
  double scale = 0;  // 0: 1 / sqrt(head_dim)
  double dropout = 0;
  RandomStream stream = {};
  static constexpr std::string_view name = "cross_attention";
  static constexpr OpKind kind = OpKind::matmul;
  static constexpr std::array saves{
      Save{.from = input(q), .need = Need::value, .for_grad_of = {q, k, v, bias}, .groups = Groups::head},
      Save{.from = input(k), .need = Need::value, .for_grad_of = {q, k, v, bias}, .groups = Groups::head},
      Save{.from = input(v), .need = Need::value, .for_grad_of = {q, k, bias}, .groups = Groups::head},
      Save{.from = input(bias), .need = Need::exact, .for_grad_of = {q, k, v, bias}},
      Save{.from = input(key_lengths), .need = Need::exact, .for_grad_of = {q, k, v, bias}}};
  static constexpr InputSet matmul_operands{q, k, v};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<CrossAttention>& saved, Grads& grads) const;
};

}  // namespace lacuna
