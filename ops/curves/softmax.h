// Softmax over the last axis: of attention scores in the plain chain of matrix products, or of a classifier's logits.
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = e^(x - max x) / Σ e^(x - max x) along the last axis. x, y: [..., C].
struct Softmax {
  enum Input { x };
  static constexpr std::string_view name = "softmax";
  static constexpr OpKind kind = OpKind::softmax;
  static constexpr std::array saves{
      Save{.from = output, .need = Need::value, .for_grad_of = {x}, .groups = Groups::head}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Softmax>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Softmax>& from, const Tensor& out) const;
};

/// y = x - max x - log Σ e^(x - max x) along the last axis. x, y: [..., C].
struct LogSoftmax {
  enum Input { x };
  static constexpr std::string_view name = "log_softmax";
  static constexpr OpKind kind = OpKind::softmax;
  static constexpr std::array saves{Save{.from = output, .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<LogSoftmax>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<LogSoftmax>& from, const Tensor& out) const;
};

}  // namespace lacuna
