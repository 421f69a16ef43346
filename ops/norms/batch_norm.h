// Batch normalisation (Ioffe and Szegedy 2015) over the last axis, fused with the residual addition and the ReLU that
// follow it in residual networks. The forms differ in what backward needs, so each is an op with its own tables.
//
// x and residual [..., C]; weight, bias, mean and variance [C], of the parameters' type. The variance is biased
// (divided by the number of rows); nn::BatchNorm2d keeps the running statistics, with the unbiased one.
#pragma once

#include "core/communicator.h"
#include "core/op.h"

namespace lacuna {

/// y = (x − mean) / √(variance + eps) · weight + bias with the statistics of this batch, which are the extra outputs.
struct BatchNorm {
  enum Input { x, weight, bias };
  enum ExtraOutput { mean, variance };
  double eps = 1e-5;
  Communicator* ranks = nullptr;  // whose batches have statistics together; null: each its own
  static constexpr std::string_view name = "batch_norm";
  static constexpr OpKind kind = OpKind::norm;
  static constexpr std::array saves{
      Save{.from = input(x), .need = Need::value, .for_grad_of = {x, weight}},
      Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
      Save{.from = extra_output(mean), .need = Need::exact, .for_grad_of = {x, weight}},
      Save{.from = extra_output(variance), .need = Need::exact, .for_grad_of = {x, weight}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x)), all_of(input(weight)), all_of(input(bias)),
                                             all_of(extra_output(mean)), all_of(extra_output(variance))};
  static constexpr InputSet accumulates_into{weight, bias};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<BatchNorm>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<BatchNorm>& from, const Tensor& out) const;
};

/// y = max(batch_norm(x), 0). Backward computes the signs of y from x, so that no more is saved than for BatchNorm.
/// From a quantized x, signs near zero would be wrong: policies then keep sign bits of y.
struct BatchNormRelu {
  enum Input { x, weight, bias };
  enum ExtraOutput { mean, variance };
  double eps = 1e-5;
  Communicator* ranks = nullptr;  // whose batches have statistics together; null: each its own
  static constexpr std::string_view name = "batch_norm_relu";
  static constexpr OpKind kind = OpKind::norm;
  static constexpr std::array saves{
      Save{.from = input(x), .need = Need::value, .for_grad_of = {x, weight, bias}},
      Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x, weight, bias}},
      Save{.from = input(bias), .need = Need::exact, .for_grad_of = {x, weight, bias}},
      Save{.from = extra_output(mean), .need = Need::exact, .for_grad_of = {x, weight, bias}},
      Save{.from = extra_output(variance), .need = Need::exact, .for_grad_of = {x, weight, bias}},
      Save{.from = output, .need = Need::sign, .for_grad_of = {x, weight, bias}, .optional = true}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x)), all_of(input(weight)), all_of(input(bias)),
                                             all_of(extra_output(mean)), all_of(extra_output(variance))};
  static constexpr InputSet accumulates_into{weight, bias};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<BatchNormRelu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<BatchNormRelu>& from, const Tensor& out) const;
};

/// y = max(batch_norm(x) + residual, 0): the end of a residual block.
struct BatchNormAddRelu {
  enum Input { x, weight, bias, residual };
  enum ExtraOutput { mean, variance };
  double eps = 1e-5;
  Communicator* ranks = nullptr;  // whose batches have statistics together; null: each its own
  static constexpr std::string_view name = "batch_norm_add_relu";
  static constexpr OpKind kind = OpKind::norm;
  static constexpr std::array saves{
      Save{.from = input(x), .need = Need::value, .for_grad_of = {x, weight}},
      Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
      Save{.from = extra_output(mean), .need = Need::exact, .for_grad_of = {x, weight}},
      Save{.from = extra_output(variance), .need = Need::exact, .for_grad_of = {x, weight}},
      Save{.from = output, .need = Need::sign, .for_grad_of = {x, weight, bias, residual}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x)), all_of(input(weight)),
                                             all_of(input(bias)),        rows_of(input(residual)),
                                             all_of(extra_output(mean)), all_of(extra_output(variance))};
  static constexpr InputSet accumulates_into{weight, bias};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<BatchNormAddRelu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<BatchNormAddRelu>& from, const Tensor& out) const;
};

/// Batch norm with given statistics (evaluation, or a frozen layer): an affine map of each channel, so that the
/// gradient of x needs no activation. No gradient for the statistics.
struct FrozenBatchNorm {
  enum Input { x, weight, bias, mean, variance };
  double eps = 1e-5;
  static constexpr std::string_view name = "frozen_batch_norm";
  static constexpr OpKind kind = OpKind::norm;
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {weight}},
                                    Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
                                    Save{.from = input(mean), .need = Need::exact, .for_grad_of = {weight}},
                                    Save{.from = input(variance), .need = Need::exact, .for_grad_of = {x, weight}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x)), all_of(input(weight)), all_of(input(bias)),
                                             all_of(input(mean)), all_of(input(variance))};
  static constexpr InputSet accumulates_into{weight, bias};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<FrozenBatchNorm>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<FrozenBatchNorm>& from, const Tensor& out) const;
};

/// y = max(frozen_batch_norm(x) + residual, 0); residual may be undefined.
struct FrozenBatchNormRelu {
  enum Input { x, weight, bias, mean, variance, residual };
  double eps = 1e-5;
  static constexpr std::string_view name = "frozen_batch_norm_relu";
  static constexpr OpKind kind = OpKind::norm;
  static constexpr std::array saves{
      Save{.from = input(x), .need = Need::value, .for_grad_of = {weight}},
      Save{.from = input(weight), .need = Need::exact, .for_grad_of = {x}},
      Save{.from = input(mean), .need = Need::exact, .for_grad_of = {weight}},
      Save{.from = input(variance), .need = Need::exact, .for_grad_of = {x, weight}},
      Save{.from = output, .need = Need::sign, .for_grad_of = {x, weight, bias, residual}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(x)), all_of(input(weight)),
                                             all_of(input(bias)),        all_of(input(mean)),
                                             all_of(input(variance)),    rows_of(input(residual))};
  static constexpr InputSet accumulates_into{weight, bias};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<FrozenBatchNormRelu>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<FrozenBatchNormRelu>& from, const Tensor& out) const;
};

}  // namespace lacuna
