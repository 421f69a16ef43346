#include "ops/norms/batch_norm.h"

#include "ops/norms/batch_norm_kernels.h"

#include <span>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<BatchNorm> batch_norm;
const RegisterOp<BatchNormRelu> batch_norm_relu;
const RegisterOp<BatchNormAddRelu> batch_norm_add_relu;
const RegisterOp<FrozenBatchNorm> frozen_batch_norm;
const RegisterOp<FrozenBatchNormRelu> frozen_batch_norm_relu;

void expect_channels(std::string_view op, std::string_view what, const Tensor& vector, const Tensor& x) {
  const DType type = compute_type(x.dtype());
  expect(vector.defined() && vector.shape() == Shape{x.shape().back()} && vector.dtype() == type,
         "{}: {} for an input of {} must be {} of [{}], got {}", op, what, x.shape(), name_of(type), x.shape().back(),
         vector.defined() ? fmt::format("{} of {}", name_of(vector.dtype()), vector.shape()) : "none");
}

void expect_rows(std::string_view op, const Tensor& x) {
  expect(x.rows() > 0, "{}: expected an input with rows, got {}", op, x.shape());
}

void expect_residual(std::string_view op, const Tensor& residual, const Tensor& x) {
  expect(residual.shape() == x.shape() && residual.dtype() == x.dtype(),
         "{}: the residual must be {} of {} as the input is, got {} of {}", op, name_of(x.dtype()), x.shape(),
         name_of(residual.dtype()), residual.shape());
}

/// Makes mean and variance those of the batches of all ranks. The host waits for nothing where `ranks` are of the
/// device.
void join_statistics(Communicator& ranks, const Tensor& mean, const Tensor& variance) {
  const std::int64_t channels = mean.count();
  const bool is_planned = mean.device() == Device::meta;
  const Device device = is_planned ? mean.device() : ranks.device();
  const Tensor mine = Tensor::empty({2, channels}, mean.dtype(), device, Purpose::workspace);
  const Tensor all = Tensor::empty({ranks.size(), 2, channels}, mean.dtype(), device, Purpose::workspace);
  if (is_planned) return;
  mine.leading(0, 1).copy_from(mean.reshape({1, channels}));
  mine.leading(1, 2).copy_from(variance.reshape({1, channels}));
  const auto bytes = [](const Tensor& tensor) {
    return std::span(tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
  };
  ranks.all_gather(bytes(mine), bytes(all));
  batch_norm_join(mean.device(), all.to(mean.device()), mean, variance);
}

/// Forward with the statistics of the batch, which become extra_outputs 0 and 1.
template <class Op>
Tensor forward_with_own_statistics(const Op& op, std::span<const Tensor> inputs, const Tensor& residual, bool relu,
                                   std::vector<Tensor>& extra_outputs) {
  const Tensor &x = inputs[Op::x], &weight = inputs[Op::weight], &bias = inputs[Op::bias];
  expect_rows(Op::name, x);
  expect_channels(Op::name, "weight", weight, x);
  expect_channels(Op::name, "bias", bias, x);
  if (residual.defined()) expect_residual(Op::name, residual, x);
  const Tensor mean = empty_like(weight), variance = empty_like(weight);
  batch_norm_statistics(x.device(), x, mean, variance);
  if (op.ranks != nullptr) join_statistics(*op.ranks, mean, variance);
  Tensor y = empty_like(x);
  batch_norm_apply(y.device(), {weight, bias, mean, variance, op.eps}, x, residual, {.relu = relu}, y);
  extra_outputs = {mean, variance};
  return y;
}

template <class Op>
Tensor forward_with_given_statistics(const Op& op, std::span<const Tensor> inputs, const Tensor& residual, bool relu) {
  const Tensor& x = inputs[Op::x];
  expect_channels(Op::name, "weight", inputs[Op::weight], x);
  expect_channels(Op::name, "bias", inputs[Op::bias], x);
  expect_channels(Op::name, "mean", inputs[Op::mean], x);
  expect_channels(Op::name, "variance", inputs[Op::variance], x);
  if (residual.defined()) expect_residual(Op::name, residual, x);
  Tensor y = empty_like(x);
  batch_norm_apply(y.device(), {inputs[Op::weight], inputs[Op::bias], inputs[Op::mean], inputs[Op::variance], op.eps},
                   x, residual, {.relu = relu}, y);
  return y;
}

/// y again from the inputs and statistics, rows that belong to `out`.
template <Source mean, Source variance, class Op>
void rematerialize_rows_of(const Op& op, const RematInputs<Op>& from, const Tensor& residual, bool relu,
                           const Tensor& out) {
  const Tensor& signs = from.signs();
  expect(!relu || !signs.defined() || 8 * signs.count() >= from.first_element() + out.count(),
         "{}: {} values from element {} on were given {} signs", Op::name, out.count(), from.first_element(),
         8 * signs.count());
  Rectify rectify{.relu = relu};
  if (relu && signs.defined()) rectify = {.relu = true, .signs = signs, .first_element = from.first_element()};
  const BatchNormChannels channels{from.template get<input(Op::weight)>(), from.template get<input(Op::bias)>(),
                                   from.template get<mean>(), from.template get<variance>(), op.eps};
  if (const Operand* const codes = from.template codes<input(Op::x)>())
    batch_norm_of_codes(out.device(), channels, *codes, from.first_element(), residual, rectify, out);
  else
    batch_norm_apply(out.device(), channels, from.template get<input(Op::x)>(), residual, rectify, out);
}

/// The saved tensors that the wanted gradients need, as far as all forms read the same.
template <Source mean, Source variance, class Op>
BatchNormBackward read_saved(const Op& op, const Saved<Op>& saved, const Grads& grads, bool own_statistics) {
  BatchNormBackward given{.own_statistics = own_statistics, .eps = op.eps};
  if constexpr (requires { op.ranks; }) given.ranks = op.ranks;
  const bool of_x = grads.wanted(Op::x), of_weight = grads.wanted(Op::weight);
  if ((of_x && own_statistics) || of_weight) {
    given.x = saved.template get<input(Op::x)>();
    given.mean = saved.template get<mean>().whole();
  }
  if (of_x || of_weight) given.variance = saved.template get<variance>().whole();
  if (of_x) given.weight = saved.template get<input(Op::weight)>().whole();
  return given;
}

/// Allocates the gradients and computes them. The residual's gradient takes dy's memory, or without one dx does.
template <class Op>
void run_backward(Tensor dy, BatchNormBackward given, Grads& grads) {
  const auto wanted_or_undefined = [&](int i) {
    if (!grads.wanted(i)) return Tensor();
    if (!grads[i].defined()) grads[i] = Tensor::zeros({dy.shape().back()}, compute_type(dy.dtype()), dy.device());
    return grads[i];
  };
  BatchNormGradients to{.x = {}, .weight = wanted_or_undefined(Op::weight), .bias = wanted_or_undefined(Op::bias)};
  if constexpr (requires { Op::residual; })
    if (grads.wanted(Op::residual)) grads[Op::residual] = to.residual = reuse_or_empty(dy, dy.shape(), dy.dtype());
  if (grads.wanted(Op::x))
    grads[Op::x] = to.x = to.residual.defined() ? empty_like(dy) : reuse_or_empty(dy, dy.shape(), dy.dtype());
  given.dy = std::move(dy);
  batch_norm_backward(given.dy.device(), given, to);
}

}  // namespace

Tensor BatchNorm::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  return forward_with_own_statistics(*this, inputs, {}, false, extra_outputs);
}
void BatchNorm::backward(Tensor dy, const Saved<BatchNorm>& saved, Grads& grads) const {
  run_backward<BatchNorm>(std::move(dy),
                          read_saved<extra_output(mean), extra_output(variance)>(*this, saved, grads, true), grads);
}
void BatchNorm::rematerialize(const RematInputs<BatchNorm>& from, const Tensor& out) const {
  rematerialize_rows_of<extra_output(mean), extra_output(variance)>(*this, from, {}, false, out);
}

Tensor BatchNormRelu::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  return forward_with_own_statistics(*this, inputs, {}, true, extra_outputs);
}
void BatchNormRelu::backward(Tensor dy, const Saved<BatchNormRelu>& saved, Grads& grads) const {
  // Any gradient needs the signs of the output, which are found from x unless they were kept.
  BatchNormBackward given{.x = saved.get<input(x)>(),
                          .weight = saved.get<input(weight)>().whole(),
                          .mean = saved.get<extra_output(mean)>().whole(),
                          .variance = saved.get<extra_output(variance)>().whole(),
                          .signs = saved.get<output>(),
                          .eps = eps,
                          .ranks = ranks};
  if (!given.signs.defined()) given.bias = saved.get<input(bias)>().whole();
  run_backward<BatchNormRelu>(std::move(dy), std::move(given), grads);
}
void BatchNormRelu::rematerialize(const RematInputs<BatchNormRelu>& from, const Tensor& out) const {
  rematerialize_rows_of<extra_output(mean), extra_output(variance)>(*this, from, {}, true, out);
}

Tensor BatchNormAddRelu::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  expect(inputs[residual].defined(), "{}: the residual is missing; batch_norm_relu is the form without", name);
  return forward_with_own_statistics(*this, inputs, inputs[residual], true, extra_outputs);
}
void BatchNormAddRelu::backward(Tensor dy, const Saved<BatchNormAddRelu>& saved, Grads& grads) const {
  BatchNormBackward given = read_saved<extra_output(mean), extra_output(variance)>(*this, saved, grads, true);
  given.signs = saved.get<output>();
  run_backward<BatchNormAddRelu>(std::move(dy), std::move(given), grads);
}
void BatchNormAddRelu::rematerialize(const RematInputs<BatchNormAddRelu>& from, const Tensor& out) const {
  rematerialize_rows_of<extra_output(mean), extra_output(variance)>(*this, from, from.get<input(residual)>(), true,
                                                                    out);
}

Tensor FrozenBatchNorm::forward(std::span<const Tensor> inputs) const {
  return forward_with_given_statistics(*this, inputs, {}, false);
}
void FrozenBatchNorm::backward(Tensor dy, const Saved<FrozenBatchNorm>& saved, Grads& grads) const {
  run_backward<FrozenBatchNorm>(std::move(dy), read_saved<input(mean), input(variance)>(*this, saved, grads, false),
                                grads);
}
void FrozenBatchNorm::rematerialize(const RematInputs<FrozenBatchNorm>& from, const Tensor& out) const {
  rematerialize_rows_of<input(mean), input(variance)>(*this, from, {}, false, out);
}

Tensor FrozenBatchNormRelu::forward(std::span<const Tensor> inputs) const {
  return forward_with_given_statistics(*this, inputs, inputs[residual], true);
}
void FrozenBatchNormRelu::backward(Tensor dy, const Saved<FrozenBatchNormRelu>& saved, Grads& grads) const {
  BatchNormBackward given = read_saved<input(mean), input(variance)>(*this, saved, grads, false);
  given.signs = saved.get<output>();
  run_backward<FrozenBatchNormRelu>(std::move(dy), std::move(given), grads);
}
void FrozenBatchNormRelu::rematerialize(const RematInputs<FrozenBatchNormRelu>& from, const Tensor& out) const {
  rematerialize_rows_of<input(mean), input(variance)>(*this, from, from.get<input(residual)>(), true, out);
}

}  // namespace lacuna
