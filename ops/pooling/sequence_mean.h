// The mean token of each sequence.
#pragma once

#include "core/kernel.h"
#include "core/op.h"
#include "ops/shapes/sequences.h"

namespace lacuna {

/// y [N, C]: the mean of the tokens of each of the sequences in x [1, T, C], padding left out, as the mean pooling of
/// sentence-transformers. Tokens are added in order, in f32 (f64 for an f64 x).
struct SequenceMean {
  enum Input { x };
  SequencesPtr sequences;
  static constexpr std::string_view name = "sequence_mean";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<SequenceMean>& saved, Grads& grads) const;
};

inline constinit Kernel<void(const Sequences& sequences, const Tensor& x, const Tensor& y)> sequence_mean_forward{
    "sequence_mean"};
/// Rows of padding get 0.
inline constinit Kernel<void(const Sequences& sequences, const Tensor& dy, const Tensor& dx)> sequence_mean_backward{
    "sequence_mean backward"};

}  // namespace lacuna
