// Sums and products of tensors.
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = a + b, of one shape and type. Both gradients are dy itself, one tensor that the inputs share.
struct Add {
  enum Input { a, b };
  static constexpr std::string_view name = "add";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{rows_of(input(a)), rows_of(input(b))};
  static constexpr InputSet accumulates_into{a, b};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Add>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Add>& from, const Tensor& out) const;
};

/// y = x + b, where b is repeated over the leading axes of x: a position embedding [1, L, D] or [L, D], a bias [C].
/// Without leading extents of 1, the shape of b is the end of that of x. b is f32, or f64 if x is.
struct AddBroadcast {
  enum Input { x, b };
  Shape shape;  // of b and its gradient
  static constexpr std::string_view name = "add_broadcast";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{rows_of(input(x)), all_of(input(b))};
  static constexpr InputSet accumulates_into{x};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<AddBroadcast>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<AddBroadcast>& from, const Tensor& out) const;
};

/// y = a · b, element-wise, of one shape and type.
struct Mul {
  enum Input { a, b };
  static constexpr std::string_view name = "mul";
  static constexpr std::array saves{Save{.from = input(a), .need = Need::value, .for_grad_of = {b}},
                                    Save{.from = input(b), .need = Need::value, .for_grad_of = {a}}};
  static constexpr std::array rematerializes{rows_of(input(a)), rows_of(input(b))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Mul>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Mul>& from, const Tensor& out) const;
};

/// y = factor · x.
struct Scale {
  enum Input { x };
  double factor = 1;
  static constexpr std::string_view name = "scale";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Scale>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Scale>& from, const Tensor& out) const;
};

/// The gradient of a summand: adds `dy` to `gradient`, or shares it as the gradient if there is none yet.
void pass_on(const Tensor& dy, Tensor& gradient);

}  // namespace lacuna
