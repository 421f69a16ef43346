#include "optim/step.h"

#include "autograd/accumulate.h"
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

void OptimizerStep::add_losses_of(Communicator& ranks) {
  ranks.all_reduce(loss_);
  const Tensor nothing = Tensor::zeros({}, DType::f64, loss_.device(), Purpose::workspace);
  add_loss(nothing, 0);  // looks whether the sum is finite
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

namespace {

void add_gradient(Parameter& parameter, Tensor more) {
  Tensor before = parameter.grad();
  parameter.set_grad({});  // the sum takes its memory
  Tensor total = before.defined() ? sum(std::move(before), std::move(more)) : std::move(more);
  if (total.storage()->owner().purpose != Purpose::gradients)
    total.storage()->assign({Purpose::gradients, {}, Label(parameter.path())});
  parameter.set_grad(std::move(total));
}

}  // namespace

void backward_of_parameters(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses,
                            std::span<Parameter* const> parameters, const std::function<void(Parameter&)>& complete,
                            bool retain_graph) {
  std::unordered_map<const Leaf*, Parameter*> of_leaf;
  bool accumulates = false;
  for (Parameter* parameter : parameters) {
    if (!parameter->trainable()) continue;
    of_leaf.emplace(parameter->variable().leaf(), parameter);
    accumulates = accumulates || parameter->grad().defined();
  }
  LeafGradients apart;
  const auto hook = [&](const Leaf& leaf) {
    const auto found = of_leaf.find(&leaf);
    if (found == of_leaf.end()) return;
    if (accumulates) add_gradient(*found->second, std::exchange(apart[&leaf], {}));
    if (complete) complete(*found->second);
  };
  tape.backward(losses, {.post_accumulate_grad_hooks = {hook},
                         .retain_graph = retain_graph,
                         .leaf_gradients = accumulates ? &apart : nullptr});
}

void step_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses, OptimizerStep& step,
                      GradientExchange* exchange) {
  const auto run = [&](const std::function<void(Parameter&)>& use, bool retain_graph) {
    const auto complete = [&](Parameter& parameter) {
      if (exchange == nullptr) return use(parameter);
      exchange->add(parameter);
      while (Parameter* const done = exchange->next(exchange->is_behind())) use(*done);
    };
    backward_of_parameters(tape, losses, step.parameters(), complete, retain_graph);
    if (exchange == nullptr) return;
    exchange->flush();
    while (Parameter* const done = exchange->next(true)) use(*done);
  };
  if (step.needs_all()) {
    for (const Parameter* parameter : step.parameters())
      expect(!parameter->trainable() || !parameter->grad().defined(),
             "{} has a gradient from before this backward pass: the norm of all gradients would be wrong",
             parameter->path());
    run(
        [&](Parameter& parameter) {
          step.measure(parameter);
          parameter.set_grad({});
        },
        true);
  }
  run(
      [&](Parameter& parameter) {
        if (!step.needs_all()) step.measure(parameter);
        step.apply(parameter);
      },
      false);
}

}  // namespace lacuna
