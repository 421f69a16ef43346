#include "optim/optimizer.h"

#include <cmath>
#include <unordered_set>

namespace lacuna {

std::vector<ParameterGroup> parameter_groups(const Module& model, double weight_decay, bool decay_norm_and_bias) {
  ParameterGroup decayed{.parameters = {}, .weight_decay = weight_decay};
  ParameterGroup others{.parameters = {}, .weight_decay = 0};
  for (Parameter* parameter : model.parameters()) {
    const bool decays = decay_norm_and_bias || !parameter->excluded_from_decay();
    (decays ? decayed : others).parameters.push_back(parameter);
  }
  return {std::move(decayed), std::move(others)};
}

Optimizer::Optimizer(std::vector<ParameterGroup> groups, std::vector<std::string_view> state_names)
    : state_names_(std::move(state_names)) {
  std::unordered_set<const Parameter*> seen;
  for (const ParameterGroup& group : groups) {
    for (Parameter* parameter : group.parameters) {
      expect(seen.insert(parameter).second, "{} stands in two parameter groups", parameter->path());
      Entry& entry = entries_.emplace_back(Entry{parameter, group.lr_scale, group.weight_decay, {}, {}});
      if (parameter->trainable()) allocate_state(entry);
    }
  }
}

void Optimizer::allocate_state(Entry& entry) const {
  const AllocationScope scope({Purpose::optimizer, {}, Label(entry.parameter->path())});
  for (std::size_t i = 0; i < state_names_.size(); ++i)
    entry.state.push_back(
        Tensor::zeros(entry.parameter->shape(), DType::f32, entry.parameter->tensor().device(), Purpose::optimizer));
  entry.step = Tensor::zeros({1}, DType::i64, Device::cpu, Purpose::optimizer);
}

void Optimizer::step(double lr, double gradient_factor) {
  expect(std::isfinite(lr) && lr >= 0, "learning rate: expected a finite number, 0 or more, got {}", lr);
  for (Entry& entry : entries_) {
    if (!entry.parameter->trainable() || !entry.parameter->grad().defined()) continue;
    const Tensor& parameter = entry.parameter->tensor();
    const Tensor& gradient = entry.parameter->grad();
    expect(gradient.shape() == parameter.shape() && gradient.dtype() == DType::f32,
           "{}: expected a gradient of {} f32, got {} {}", entry.parameter->path(), parameter.shape(), gradient.shape(),
           name_of(gradient.dtype()));
    if (!entry.step.defined()) allocate_state(entry);
    update({.parameter = parameter,
            .gradient = gradient,
            .state = entry.state,
            .step = ++*entry.step.data<std::int64_t>(),
            .lr = lr * entry.lr_scale,
            .weight_decay = entry.weight_decay,
            .gradient_factor = gradient_factor});
    parameter.bump_version();
  }
}

void Optimizer::zero_grad() {
  for (const Entry& entry : entries_)
    if (entry.parameter->trainable()) entry.parameter->set_grad({});
}

std::vector<Optimizer::StateTensor> Optimizer::state() const {
  std::vector<StateTensor> all;
  for (const Entry& entry : entries_) {
    if (!entry.step.defined()) continue;
    const std::string& path = entry.parameter->path();
    for (std::size_t i = 0; i < entry.state.size(); ++i)
      all.push_back({path + "." + std::string(state_names_[i]), entry.state[i]});
    all.push_back({path + ".step", entry.step});
  }
  return all;
}

Registry<OptimizerKind>& optimizers() {
  static Registry<OptimizerKind> registry("optimizer");
  return registry;
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const SettingValues& settings, const Module& model) {
  const OptimizerKind& kind = optimizers().get(name);
  const Settings checked(fmt::format("optimizer {}", name), kind.settings, settings);
  return kind.make(checked,
                   parameter_groups(model, checked.number("weight_decay"), checked.flag("decay_norm_and_bias")));
}

}  // namespace lacuna
