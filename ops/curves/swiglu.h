// The gated linear unit of transformers.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

namespace lacuna {

/// silu(a)·b for x = [a, b] along the last axis (Shazeer 2020, section 2): x [..., 2 C] to [..., C].
struct SwiGlu {
  enum Input { x };
  static constexpr std::string_view name = "swiglu";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<SwiGlu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<SwiGlu>& from, const Tensor& out) const;
};

/// x: [..., 2 C]; y: [..., C].
inline constinit Kernel<void(const Tensor& x, const Tensor& y)> swiglu_forward{"swiglu"};
/// x, dx: [..., 2 C]; dy: [..., C].
inline constinit Kernel<void(const Operand& x, const Tensor& dy, const Tensor& dx)> swiglu_backward{"swiglu backward"};

}  // namespace lacuna
