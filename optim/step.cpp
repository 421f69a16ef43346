#include "optim/step.h"

#include "autograd/accumulate.h"
#include "autograd/tape.h"
#include "optim/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
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
  const std::int64_t count = std::ssize(parameters);
  figures_ = Tensor::zeros({2 + count}, DType::f64, device, Purpose::workspace);
  loss_ = figures_.leading(0, 1).reshape({});
  clip_.updates = figures_.leading(1, 2).reshape({});
  squares_ = figures_.leading(2, 2 + count);
  clip_.finite = Tensor::full({}, 1, DType::i32, device, Purpose::workspace);
  if (const LossScale* const scale = optimizer.loss_scale()) scale_ = scale->scale().clone(Purpose::workspace);
  if (clipping.norm > 0 || clipping.parameter_norm > 0 || scale_.defined()) clip_.factor = scalar(DType::f32);
  if (clipping.value > 0) clip_.limit = static_cast<float>(clipping.value);
}

OptimizerStep::OptimizerStep(Optimizer& optimizer, std::span<Parameter* const> parameters, const Tensor& rate,
                             const Tensor& goes_on, const Clipping& clipping)
    : OptimizerStep(optimizer, parameters, 1, clipping) {
  clip_.rate = rate;
  goes_on_ = goes_on;
  if (goes_on_.defined()) clip_.finite.copy_from(goes_on_);
}

void OptimizerStep::add_loss(const Tensor& loss, const Factor& weight) {
  lacuna::add_loss(loss.device(), loss, weight, loss_, clip_.finite);
}

Tensor OptimizerStep::loss_gradient(const Tensor& loss, const Factor& weight) const {
  Tensor gradient = Tensor::full(loss.shape(), weight.value, loss.dtype(), loss.device());
  if (scale_.defined() || weight.on_device.defined()) seed_loss_gradient(loss.device(), weight, scale_, gradient);
  return gradient;
}

void OptimizerStep::end() const {
  if (const LossScale* const scale = optimizer_.loss_scale()) scale->adapt(clip_.finite);
  if (goes_on_.defined()) goes_on_.copy_from(clip_.finite);
}

void OptimizerStep::add_losses_of(Communicator& ranks) {
  ranks.all_reduce(loss_);
  const Tensor nothing = Tensor::zeros({}, DType::f64, loss_.device(), Purpose::workspace);
  add_loss(nothing, 0);  // looks whether the sum is finite
}

void OptimizerStep::measure(std::span<Parameter* const> parameters) {
  std::vector<MeasuredGradient> gradients;
  for (const Parameter* const parameter : parameters)
    if (parameter->trainable() && parameter->grad().defined())
      gradients.push_back({parameter->grad(), static_cast<std::int64_t>(index_.at(parameter))});
  measure_gradients(squares_.device(), gradients, squares_, clip_.finite);
  clip_is_known_ = false;
}

void OptimizerStep::measure(Parameter& parameter) {
  Parameter* const one = &parameter;
  measure(std::span(&one, 1));
}

void OptimizerStep::apply(std::span<Parameter* const> parameters) {
  if (clipping_.parameter_norm > 0) {  // they share one factor: one after the other
    for (Parameter* const parameter : parameters) apply(*parameter);
    return;
  }
  if (needs_all() && !std::exchange(clip_is_known_, true)) {
    const double most = clipping_.norm > 0 ? clipping_.norm : std::numeric_limits<double>::infinity();
    clip_gradients(squares_.device(), squares_, 0, squares_.count(), most, scale_, clip_.factor);
  }
  update(parameters);
}

void OptimizerStep::apply(Parameter& parameter) {
  Parameter* const one = &parameter;
  if (clipping_.parameter_norm == 0) return apply(std::span(&one, 1));
  const auto index = static_cast<std::int64_t>(index_.at(&parameter));
  clip_gradients(squares_.device(), squares_, index, index + 1, clipping_.parameter_norm, scale_, clip_.factor);
  update(std::span(&one, 1));
}

void OptimizerStep::update(std::span<Parameter* const> parameters) {
  optimizer_.update(parameters, lr_, clip_);
  for (Parameter* const parameter : parameters)
    if (parameter->trainable()) parameter->set_grad({});
}

StepReport OptimizerStep::report() const {
  if (squares_.device() == Device::meta) return {};
  return report(figures_.to_vector(), scale_.defined() ? scale_.item() : 1);
}

StepReport OptimizerStep::report(std::span<const double> figures) const {
  expect(!scale_.defined(), "a step's loss scale is read with its figures");
  return report(figures, 1);
}

StepReport OptimizerStep::report(std::span<const double> figures, double scale) const {
  const std::span<const double> squares = figures.subspan(2);
  StepReport report{.loss = figures[0],
                    .gradient_norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / scale,
                    .loss_scale = scale,
                    .updated = figures[1] > 0};
  for (std::size_t i = squares.size(); i-- > 0;)
    if (!std::isfinite(squares[i])) report.nonfinite = parameters_[i];
  return report;
}

void OptimizerStep::add_norms_of(Communicator& ranks) {
  ranks.all_reduce(squares_);
  look_for_nonfinite(squares_.device(), squares_, clip_.finite);
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
    if (exchange != nullptr && exchange->goes_to_owners()) step.add_norms_of(exchange->ranks());
  }
  run(
      [&](Parameter& parameter) {
        if (!step.needs_all()) step.measure(parameter);
        step.apply(parameter);
      },
      false);
}

}  // namespace lacuna
