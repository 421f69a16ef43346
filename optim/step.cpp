#include "optim/step.h"

#include "optim/kernels.h"

#include <cmath>
#include <numeric>

namespace lacuna {

OptimizerStep::OptimizerStep(Optimizer& optimizer, std::span<Parameter* const> parameters, double lr,
                             const Clipping& clipping)
    : optimizer_(optimizer), parameters_(parameters), lr_(lr), clipping_(clipping) {
  expect((clipping.norm > 0) + (clipping.parameter_norm > 0) + (clipping.value > 0) <= 1,
         "gradients are clipped by one limit, not by several");
  for (std::size_t i = 0; i < parameters.size(); ++i) index_.emplace(parameters[i], i);
  const AllocationScope scope({Purpose::workspace, Label("optimizer step"), {}});
  const Device device = parameters.empty() ? Device::cpu : parameters.front()->tensor().device();
  const auto scalar = [&](DType dtype) { return Tensor::zeros({}, dtype, device, Purpose::workspace); };
  loss_ = scalar(DType::f64);
  squares_ = Tensor::zeros({std::ssize(parameters)}, DType::f64, device, Purpose::workspace);
  clip_.finite = Tensor::full({}, 1, DType::i32, device, Purpose::workspace);
  clip_.updates = scalar(DType::i64);
  if (clipping.norm > 0 || clipping.parameter_norm > 0) clip_.factor = scalar(DType::f32);
  if (clipping.value > 0) clip_.limit = static_cast<float>(clipping.value);
}

void OptimizerStep::add_loss(const Tensor& loss, double weight) {
  lacuna::add_loss(loss.device(), loss, weight, loss_, clip_.finite);
}

void OptimizerStep::measure(const Parameter& parameter) {
  if (!parameter.trainable() || !parameter.grad().defined()) return;
  const auto index = static_cast<std::int64_t>(index_.at(&parameter));
  measure_gradient(squares_.device(), parameter.grad(), index, squares_, clip_.finite);
  clip_is_known_ = false;
}

void OptimizerStep::apply(Parameter& parameter) {
  if (!parameter.trainable()) return;
  const auto index = static_cast<std::int64_t>(index_.at(&parameter));
  if (clipping_.parameter_norm > 0)
    clip_gradients(squares_.device(), squares_, index, index + 1, clipping_.parameter_norm, clip_.factor);
  if (clipping_.norm > 0 && !std::exchange(clip_is_known_, true))
    clip_gradients(squares_.device(), squares_, 0, squares_.count(), clipping_.norm, clip_.factor);
  optimizer_.update(parameter, lr_, clip_);
  parameter.set_grad({});
}

StepReport OptimizerStep::report() const {
  if (squares_.device() == Device::meta) return {};
  const std::vector<double> squares = squares_.to_vector();
  StepReport report{.loss = loss_.item(),
                    .gradient_norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)),
                    .updated = clip_.updates.item() > 0};
  for (std::size_t i = squares.size(); i-- > 0;)
    if (!std::isfinite(squares[i])) report.nonfinite = parameters_[i];
  return report;
}

void step_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses, OptimizerStep& step) {
  std::unordered_map<const Leaf*, Parameter*> of_leaf;
  for (Parameter* parameter : step.parameters())
    if (parameter->trainable()) of_leaf.emplace(parameter->variable().leaf(), parameter);
  const auto hook = [&](auto&& use) {
    return [&of_leaf, use](const Leaf& leaf) {
      if (const auto found = of_leaf.find(&leaf); found != of_leaf.end()) use(*found->second);
    };
  };
  if (step.needs_all()) {
    tape.backward(losses, {.post_accumulate_grad_hooks = {hook([&](Parameter& parameter) {
                             step.measure(parameter);
                             parameter.set_grad({});
                           })},
                           .retain_graph = true});
    for (const Parameter* parameter : step.parameters())
      expect(!parameter->trainable() || !parameter->grad().defined(),
             "{} has a gradient from before this backward pass: the norm of all gradients would be wrong",
             parameter->path());
  }
  tape.backward(losses, {.post_accumulate_grad_hooks = {hook([&](Parameter& parameter) {
                           if (!step.needs_all()) step.measure(parameter);
                           step.apply(parameter);
                         })}});
}

}  // namespace lacuna
