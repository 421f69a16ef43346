#include "nn/norm.h"

#include "autograd/checkpoint.h"
#include "nn/init.h"
#include "ops/attention/normed_rotary.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/norms/running_statistics.h"

namespace lacuna::nn {

LayerNorm::LayerNorm(Module& parent, std::string_view name, std::int64_t channels, double eps, double weight, bool bias)
    : Module(parent, name), eps_(eps), weight_(*this, "weight", {channels}, init::constant(weight)) {
  if (bias) bias_.emplace(*this, "bias", Shape{channels}, init::constant(0));
  set_role(Role::norm);
}

Variable LayerNorm::forward(Variable x) const {
  const Scope scope(*this);
  return apply(lacuna::LayerNorm{.eps = eps_}, std::move(x), weight_.variable(),
               bias_ ? bias_->variable() : Variable());
}

RmsNorm::RmsNorm(Module& parent, std::string_view name, std::int64_t channels, double eps, double offset)
    : Module(parent, name),
      eps_(eps),
      offset_(offset),
      weight_(*this, "weight", {channels}, init::constant(1 - offset)) {
  set_role(Role::norm);
}

Variable RmsNorm::forward(Variable x) const {
  const Scope scope(*this);
  const lacuna::RmsNorm op = op_of(x);
  return apply(op, std::move(x), weight_.variable());
}

Variable RmsNorm::forward_rotary(Variable x, Rotary rotary) const {
  const Scope scope(*this);
  const NormedRotary op{.norm = op_of(x), .rotary = std::move(rotary)};
  return apply(op, std::move(x), weight_.variable());
}

lacuna::RmsNorm RmsNorm::op_of(const Variable& x) const {
  return {.eps = eps_, .offset = offset_, .heads = x.shape().back() / weight_.shape().back()};
}

BatchNorm2d::BatchNorm2d(Module& parent, std::string_view name, std::int64_t channels, const BatchNormOptions& options)
    : Module(parent, name),
      eps_(options.eps),
      momentum_(options.momentum),
      weight_(*this, "weight", {channels}, init::constant(options.weight)),
      bias_(*this, "bias", {channels}, init::constant(0)),
      running_mean_(*this, "running_mean", {channels}, 0),
      running_var_(*this, "running_var", {channels}, 1),
      num_batches_tracked_(*this, "num_batches_tracked", {}, 0, DType::i64) {
  set_role(Role::norm);
}

void BatchNorm2d::fix(double eps) {
  eps_ = eps;
  fixed_ = true;
  on_freeze();
}

void BatchNorm2d::on_freeze() {
  if (fixed_)
    for (Parameter* const parameter : {&weight_, &bias_}) parameter->set_trainable(false);
  frozen_ = !weight_.trainable() && !bias_.trainable();
}

template <class Op, class... Residual>
Variable BatchNorm2d::with_batch_statistics(Variable x, Residual... residual) {
  const Scope scope(*this);
  const std::int64_t rows = x.tensor().rows() * (ranks_ == nullptr ? 1 : ranks_->size());
  if (rows <= 1)
    reject("{}: batch statistics in training need more than one value a channel, got images {}", path(), x.shape());
  std::vector<Variable> inputs;
  inputs.push_back(std::move(x));
  inputs.push_back(weight_.variable());
  inputs.push_back(bias_.variable());
  (inputs.push_back(std::move(residual)), ...);
  auto [outputs, statistics] = record(std::make_shared<const Bound<Op>>(Op{.eps = eps_, .ranks = ranks_}), inputs);
  update_running_statistics(statistics[Op::mean], statistics[Op::variance], rows);
  return std::move(outputs.front());
}

template <class Op, class... Residual>
Variable BatchNorm2d::with_running_statistics(Variable x, Residual... residual) {
  const Scope scope(*this);
  return apply(Op{.eps = eps_}, std::move(x), weight_.variable(), bias_.variable(), Variable(running_mean_.tensor()),
               Variable(running_var_.tensor()), std::move(residual)...);
}

void BatchNorm2d::update_running_statistics(const Tensor& mean, const Tensor& variance, std::int64_t rows) {
  if (is_recomputing()) return;  // this batch is already counted
  const double unbiased = static_cast<double>(rows) / static_cast<double>(rows - 1);
  ema_update(running_mean_.tensor(), mean, momentum_, 1);
  ema_update(running_var_.tensor(), variance, momentum_, unbiased);
  increment(num_batches_tracked_.tensor());
}

Variable BatchNorm2d::forward(Variable x) {
  if (uses_running_statistics()) return with_running_statistics<FrozenBatchNorm>(std::move(x));
  return with_batch_statistics<BatchNorm>(std::move(x));
}

Variable BatchNorm2d::forward_relu(Variable x) {
  if (uses_running_statistics()) return with_running_statistics<FrozenBatchNormRelu>(std::move(x), Variable());
  return with_batch_statistics<BatchNormRelu>(std::move(x));
}

Variable BatchNorm2d::forward_add_relu(Variable x, Variable residual) {
  if (uses_running_statistics()) return with_running_statistics<FrozenBatchNormRelu>(std::move(x), std::move(residual));
  return with_batch_statistics<BatchNormAddRelu>(std::move(x), std::move(residual));
}

}  // namespace lacuna::nn
