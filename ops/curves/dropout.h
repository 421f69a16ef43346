// Dropout. Nothing is saved: backward draws the same numbers again from the op's stream. The draws of a sample depend
// on its number in the global batch, not on how the batch is split.
#pragma once

#include "core/op.h"
#include "core/random.h"
#include "ops/shapes/sequences.h"

namespace lacuna {

/// Each element becomes 0 with probability p, and is divided by 1 - p otherwise (Srivastava et al. 2014, scaled during
/// training). x: [batch, ...], or the tokens [1, T, C] of `sequences`, whose draws are those of a batch [N, L, C] of
/// any L; 0 <= p < 1. A residual of x's shape and type is added to the result; it is left out if there is none.
struct Dropout {
  enum Input { x, residual };
  double p = 0;
  RandomStream stream;
  SequencesPtr sequences{};
  static constexpr std::string_view name = "dropout";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{rows_of(input(x)), rows_of(input(residual))};
  static constexpr InputSet accumulates_into{residual};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Dropout>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Dropout>& from, const Tensor& out) const;
};

/// Each sample becomes 0 with probability p, and is divided by 1 - p otherwise (stochastic depth: Huang et al. 2016, in
/// timm's scaled form). x: [batch, ...]; 0 <= p < 1. A residual is added as in Dropout.
struct DropPath {
  enum Input { x, residual };
  double p = 0;
  RandomStream stream;
  static constexpr std::string_view name = "drop_path";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{rows_of(input(x)), rows_of(input(residual))};
  static constexpr InputSet accumulates_into{residual};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<DropPath>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<DropPath>& from, const Tensor& out) const;
};

}  // namespace lacuna
