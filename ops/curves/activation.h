// Elementwise non-linearities. Each saves the one tensor that is cheapest for its derivative; all can be
// rematerialized.
#pragma once

#include "core/op.h"
#include "ops/quantize/slope.h"

namespace lacuna {

/// Gaussian error linear unit, x·Φ(x). `tanh` is the usual approximation (Hendrycks and Gimpel 2016, section 2).
struct Gelu {
  enum Input { x };
  enum class Form : std::uint8_t { erf, tanh } form = Form::erf;
  static constexpr std::string_view name = "gelu";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr const quant::SlopeLevels* slopes = &quant::gelu_slopes;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Gelu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Gelu>& from, const Tensor& out) const;
};

/// Rectified linear unit, max(x, 0): backward needs a bit an element.
struct Relu {
  enum Input { x };
  static constexpr std::string_view name = "relu";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr std::array saves{Save{.from = output, .need = Need::sign, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Relu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Relu>& from, const Tensor& out) const;
};

/// Sigmoid linear unit, x·σ(x).
struct Silu {
  enum Input { x };
  static constexpr std::string_view name = "silu";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr const quant::SlopeLevels* slopes = &quant::silu_slopes;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Silu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Silu>& from, const Tensor& out) const;
};

/// x·σ(1.702·x), an approximation of GELU.
struct QuickGelu {
  enum Input { x };
  static constexpr std::string_view name = "quick_gelu";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<QuickGelu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<QuickGelu>& from, const Tensor& out) const;
};

/// σ(x) = 1 / (1 + e^-x); its derivative is a function of its output.
struct Sigmoid {
  enum Input { x };
  static constexpr std::string_view name = "sigmoid";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr std::array saves{Save{.from = output, .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Sigmoid>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Sigmoid>& from, const Tensor& out) const;
};

/// Hyperbolic tangent; its derivative is a function of its output.
struct Tanh {
  enum Input { x };
  static constexpr std::string_view name = "tanh";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr std::array saves{Save{.from = output, .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Tanh>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Tanh>& from, const Tensor& out) const;
};

}  // namespace lacuna
