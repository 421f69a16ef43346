#include "optim/step.h"

#include <cmath>
#include <numeric>

namespace lacuna {

OptimizerStep::OptimizerStep(Optimizer& optimizer, std::span<Parameter* const> parameters, double lr,
                             const Clipping& clipping)
    : optimizer_(optimizer), parameters_(parameters), lr_(lr), clipping_(clipping), squares_(parameters.size()) {
  expect((clipping.norm > 0) + (clipping.parameter_norm > 0) + (clipping.value > 0) <= 1,
         "gradients are held down by one limit, not by several");
  for (std::size_t i = 0; i < parameters.size(); ++i) index_.emplace(parameters[i], i);
}

void OptimizerStep::measure(const Parameter& parameter) {
  if (!parameter.trainable() || !parameter.grad().defined()) return;
  squares_[index_.at(&parameter)] = sum_of_squares(parameter.grad());
}

void OptimizerStep::apply(Parameter& parameter) {
  if (!parameter.trainable()) return;
  formula::CountedGradient counted;
  if (clipping_.norm > 0) counted.factor = static_cast<float>(clip_factor(gradient_norm(), clipping_.norm));
  if (clipping_.parameter_norm > 0)
    counted.factor =
        static_cast<float>(clip_factor(std::sqrt(squares_[index_.at(&parameter)]), clipping_.parameter_norm));
  if (clipping_.value > 0) counted.limit = static_cast<float>(clipping_.value);
  applied_ = applied_ || parameter.grad().defined();
  optimizer_.update(parameter, lr_, counted);
  parameter.set_grad({});
}

double OptimizerStep::gradient_norm() const {
  return std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
}

const Parameter* OptimizerStep::nonfinite() const {
  for (std::size_t i = 0; i < squares_.size(); ++i)
    if (!std::isfinite(squares_[i])) return parameters_[i];
  return nullptr;
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
             "{} has a gradient that came from elsewhere: the norm of all gradients would be wrong", parameter->path());
    if (step.nonfinite() != nullptr) return;
  }
  tape.backward(losses, {.post_accumulate_grad_hooks = {hook([&](Parameter& parameter) {
                           if (!step.needs_all()) step.measure(parameter);
                           if (step.nonfinite() == nullptr)
                             step.apply(parameter);
                           else
                             parameter.set_grad({});
                         })}});
}

}  // namespace lacuna
