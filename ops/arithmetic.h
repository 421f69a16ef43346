// Sums and products of tensors.
#pragma once

#include "core/op.h"

namespace lacuna {

/// y = a + b, of one shape and type. Nothing is kept, and both gradients are dy itself.
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

/// y = x + b, b repeated over the leading axes of x: a position embedding [1, L, D] or [L, D], a bias [C].
/// The extents of b are the last ones of x, after leading ones of 1. b is a parameter: f32 for any x but f64.
struct AddBroadcast {
  enum Input { x, b };
  Shape shape;  // of b, and so of its gradient
  static constexpr std::string_view name = "add_broadcast";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{rows_of(input(x)), all_of(input(b))};
  static constexpr InputSet accumulates_into{x};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<AddBroadcast>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<AddBroadcast>& from, const Tensor& out) const;
};

/// y = a · b element by element, of one shape and type.
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

}  // namespace lacuna
