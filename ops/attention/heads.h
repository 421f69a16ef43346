// Layouts around the unfused attention (matmul, softmax, matmul): packed projections to one matrix per head, and back.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Part `part` of a packed projection: x [B, L, parts·H·d] to [B, H, L, d]. In timm's order, parts 0, 1, 2 of a packed
/// qkv are q, k, v.
struct SplitHeads {
  enum Input { x };
  std::int64_t heads = 1;
  std::int64_t part = 0;
  std::int64_t parts = 3;
  static constexpr std::string_view name = "split_heads";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{all_of(input(x))};
  static constexpr InputSet accumulates_into{x};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<SplitHeads>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<SplitHeads>& from, const Tensor& out) const;
};

/// Concatenation of heads: x [B, H, L, d] to [B, L, H·d].
struct MergeHeads {
  enum Input { x };
  std::int64_t heads = 1;
  static constexpr std::string_view name = "merge_heads";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{all_of(input(x))};
  static constexpr InputSet accumulates_into{x};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<MergeHeads>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<MergeHeads>& from, const Tensor& out) const;
};

}  // namespace lacuna
