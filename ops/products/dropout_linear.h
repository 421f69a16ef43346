// Fully connected layer of a thinned input: what a low-rank adapter reads.
#pragma once

#include "core/op.h"
#include "core/random.h"
#include "ops/shapes/sequences.h"

namespace lacuna {

/// y = dropout(x) · wᵀ. x [batch, ..., K], or the tokens [1, T, K] of `sequences` as in Dropout; weight [N, K]; y [...,
/// N] in x's type. 0 <= p < 1.
///
/// The thinned input is never saved, and exists for some rows at a time: backward reads x and draws again. So x, which
/// other layers may read as well, is saved once.
struct DropoutLinear {
  enum Input { x, weight };
  double p = 0;
  RandomStream stream;
  SequencesPtr sequences{};
  static constexpr std::string_view name = "dropout_linear";
  static constexpr OpKind kind = OpKind::linear;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {weight}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}}};
  static constexpr InputSet matmul_operands{x, weight};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<DropoutLinear>& saved, Grads& grads) const;
};

}  // namespace lacuna
