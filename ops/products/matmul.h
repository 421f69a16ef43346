// Matrix product of two activations.
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = scale · a·b. a [..., M, K], b [..., K, N] (or [..., N, K] with `transpose_b`), the leading axes equal;
/// y [..., M, N].
struct MatMul {
  enum Input { a, b };
  bool transpose_b = false;
  double scale = 1;
  static constexpr std::string_view name = "matmul";
  static constexpr OpKind kind = OpKind::matmul;
  static constexpr std::array saves{
      Save{.from = input(a), .need = Need::value, .for_grad_of = {b}, .groups = Groups::head},
      Save{.from = input(b), .need = Need::value, .for_grad_of = {a}, .groups = Groups::head}};
  static constexpr InputSet accumulates_into{a, b};
  static constexpr InputSet matmul_operands{a, b};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<MatMul>& saved, Grads& grads) const;
};

}  // namespace lacuna
