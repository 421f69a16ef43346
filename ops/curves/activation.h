// Elementwise non-linearities. Each saves the one tensor that is cheapest for its derivative; all can be
// rematerialized.
#pragma once

#include "core/op.h"
#include "ops/quantize/slope.h"

namespace lacuna {

/// A curve whose derivative follows from `from`, its input or its output.
template <class Op, Source from>
struct Curve {
  enum Input { x };
  static constexpr OpKind kind = OpKind::activation;
  static constexpr std::array saves{Save{.from = from, .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Op>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Op>& rows, const Tensor& out) const;
};

/// Gaussian error linear unit, x·Φ(x). `tanh` is the usual approximation (Hendrycks and Gimpel 2016, section 2).
struct Gelu : Curve<Gelu, input(0)> {
  enum class Form : std::uint8_t { erf, tanh } form;
  explicit Gelu(Form which = Form::erf) : form(which) {}
  static constexpr std::string_view name = "gelu";
  static constexpr const quant::SlopeLevels* slopes = &quant::gelu_slopes;
};

/// Sigmoid linear unit, x·σ(x).
struct Silu : Curve<Silu, input(0)> {
  static constexpr std::string_view name = "silu";
  static constexpr const quant::SlopeLevels* slopes = &quant::silu_slopes;
};

/// x·σ(1.702·x), an approximation of GELU.
struct QuickGelu : Curve<QuickGelu, input(0)> {
  static constexpr std::string_view name = "quick_gelu";
};

/// x·min(max(x + 3, 0), 6) / 6 (Howard et al. 2019). Slopes at the kinks are PyTorch's, here and below.
struct HardSwish : Curve<HardSwish, input(0)> {
  static constexpr std::string_view name = "hard_swish";
};

/// min(max(x + 3, 0), 6) / 6.
struct HardSigmoid : Curve<HardSigmoid, input(0)> {
  static constexpr std::string_view name = "hard_sigmoid";
};

/// min(max(x, 0), 6).
struct Relu6 : Curve<Relu6, input(0)> {
  static constexpr std::string_view name = "relu6";
};

/// σ(x) = 1 / (1 + e^-x).
struct Sigmoid : Curve<Sigmoid, output> {
  static constexpr std::string_view name = "sigmoid";
};

/// Hyperbolic tangent.
struct Tanh : Curve<Tanh, output> {
  static constexpr std::string_view name = "tanh";
};

/// Exponential linear unit: x, and e^x - 1 below 0 (Clevert et al. 2016). Backward reads x, though the output would do:
/// behind a norm both are then made again from the norm's input.
struct Elu : Curve<Elu, input(0)> {
  static constexpr std::string_view name = "elu";
};

/// Rectified linear unit, max(x, 0): backward needs a bit an element.
struct Relu {
  enum Input { x };
  static constexpr std::string_view name = "relu";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr std::array saves{Save{.from = output, .need = Need::sign, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Relu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Relu>& from, const Tensor& out) const;
};

}  // namespace lacuna
