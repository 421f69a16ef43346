// A classifier of many classes and its loss in one op.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

namespace lacuna {

/// Cross entropy of softmax(x · weightᵀ + bias) against labels, mean over the rows that count: a scalar [], f32 (f64
/// for an f64 x); 0 if no row counts. The logits [N, V] exist for a block at a time only (Wijmans et al. 2025, "Cut
/// your losses in large-vocabulary language models"): in forward of 1,024 rows and some classes, in backward of some
/// rows. x: [N, K] or [1, N, K]; weight: [V, K]; bias: [V], optional; labels: i64 of N elements, each in [0, V), or
/// `ignored` where a row does not count: the CPU computes no logits for it. Label smoothing as in CrossEntropy.
/// soft_cap, if not 0: logits become soft_cap · tanh(logit / soft_cap).
///
/// Backward computes the logits again: one matrix product more than the three of a step whose forward makes the
/// gradients. Forward does not make them, since the gradient of the weight would be held through all of backward, an
/// evaluation would pay for it, and the op needs no more than x, which a policy may quantize: the rows' sums are
/// computed again.
struct LinearCrossEntropy {
  enum Input { x, weight, bias, labels };
  double label_smoothing = 0;
  std::int64_t ignored = -100;
  double soft_cap = 0;
  static constexpr std::string_view name = "linear_cross_entropy";
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {x, weight, bias}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x, weight, bias}},
                                    Save{.from = input(bias), .need = Need::exact, .for_grad_of = {x, weight, bias}},
                                    Save{.from = input(labels), .need = Need::exact, .for_grad_of = {x, weight, bias}}};
  static constexpr InputSet accumulates_into{x, weight, bias};
  static constexpr InputSet matmul_operands{x, weight};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<LinearCrossEntropy>& saved, Grads& grads) const;
};

/// The same for a weight and a bias that are not trained, without label smoothing, in two products in place of three:
/// forward makes the gradient of x for a gradient of the loss of N, so that f16 holds it, and nothing but it is kept.
/// gradient: as x. A block of classes goes through both products before the next one is read, as keys and values do in
/// flash attention.
struct FrozenLinearCrossEntropy {
  enum Input { x, weight, bias, labels };
  enum ExtraOutput { gradient };
  LinearCrossEntropy loss = {};
  static constexpr std::string_view name = "frozen_linear_cross_entropy";
  static constexpr std::array saves{Save{.from = extra_output(gradient), .need = Need::exact, .for_grad_of = {x}}};
  static constexpr InputSet matmul_operands{x};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(const Tensor& dy, const Saved<FrozenLinearCrossEntropy>& saved, Grads& grads) const;
};

/// Rows of logits that exist at a time in backward.
std::int64_t logit_rows(std::int64_t classes);

/// Throws Error (the input's fault) if a label is neither in [0, classes) nor `ignored`.
inline constinit Kernel<void(const Tensor& labels, std::int64_t classes, std::int64_t ignored)> check_token_labels{
    "linear_cross_entropy: check of labels"};
/// loss [] = sum / rows that count.
inline constinit Kernel<void(std::int64_t ignored, const Tensor& labels, const Tensor& sum, const Tensor& loss)>
    linear_cross_entropy_mean{"linear_cross_entropy: mean"};
/// logits = soft_cap · tanh(logits / soft_cap).
inline constinit Kernel<void(double soft_cap, const Tensor& logits)> cap_logits{"linear_cross_entropy: soft cap"};
/// Turns logits [n, V] into the gradients of the loss with respect to them, or with a soft cap to those before it.
/// labels: of these rows; all_labels: of all.
inline constinit Kernel<void(double label_smoothing, std::int64_t ignored, double soft_cap, const Tensor& dy,
                             const Tensor& labels, const Tensor& all_labels, const Tensor& logits)>
    linear_cross_entropy_gradient{"linear_cross_entropy backward"};

/// y = dy · factor · x. dy: [] in the compute type of x; x, y: [N, K].
inline constinit Kernel<void(const Tensor& dy, double factor, const Tensor& x, const Tensor& y)> scale_by{
    "frozen_linear_cross_entropy backward"};

}  // namespace lacuna
