#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace lacuna {

Optimizer::Optimizer(const OptimizerConfig& config, StateKinds kinds)
    : precision_(config.precision),
      seed_(config.seed),
      rank_(config.rank),
      ranks_(config.ranks),
      rounding_(config.rounding),
      kinds_(std::move(kinds)) {
  for (const ParameterGroup& group : config.groups) {
    for (Parameter* parameter : group.parameters) {
      expect(index_.emplace(parameter, entries_.size()).second, "{} is in two parameter groups", parameter->path());
      entries_.push_back(Entry{parameter, group.lr_scale, group.weight_decay, {}, {}, {}});
    }
  }
  if (config.loss_scale && !entries_.empty()) {
    const AllocationScope scope({Purpose::optimizer, {}, Label(loss_scale_name)});
    loss_scale_.emplace(*config.loss_scale, entries_.front().parameter->tensor().device());
  }
  assign_owners();
  for (Entry& entry : entries_)
    if (entry.parameter->trainable() && entry.owner == rank_) allocate_state(entry);
}

/// The largest parameters first, each to the rank that has the least.
void Optimizer::assign_owners() {
  expect(0 <= rank_ && rank_ < ranks_, "an optimizer that {} ranks share has no part for rank {}", ranks_, rank_);
  if (ranks_ == 1) return;
  std::vector<Entry*> by_size;
  for (Entry& entry : entries_) by_size.push_back(&entry);
  const auto size = [](const Entry* entry) {
    return entry->parameter->trainable() ? entry->parameter->tensor().count() : 0;
  };
  std::ranges::stable_sort(by_size, std::greater{}, size);
  std::vector<std::int64_t> taken(static_cast<std::size_t>(ranks_));
  for (Entry* const entry : by_size) {
    const auto least = std::ranges::min_element(taken);
    entry->owner = static_cast<int>(least - taken.begin());
    *least += size(entry);
  }
}

int Optimizer::owner_of(const Parameter& parameter) const {
  const auto found = index_.find(&parameter);
  expect(found != index_.end(), "{} is in no parameter group", parameter.path());
  return entries_[found->second].owner;
}

void Optimizer::allocate_state(Entry& entry) const {
  const AllocationScope scope({Purpose::optimizer, {}, Label(entry.parameter->path())});
  for (const StateKind& kind : kinds_(*entry.parameter))
    entry.state.emplace_back(kind.shape.value_or(entry.parameter->shape()), entry.parameter->tensor().device(), kind,
                             precision_);
  if (entry.parameter->tensor().is_coded() && rounding_ == WeightRounding::kahan)
    entry.compensation =
        Tensor::zeros(entry.parameter->shape(), DType::bf16, entry.parameter->tensor().device(), Purpose::optimizer);
  entry.step = Tensor::zeros({1}, DType::i64, entry.parameter->tensor().device(), Purpose::optimizer);
}

void Optimizer::step(double lr, const GradientClip& clip) {
  std::vector<Entry*> all;
  for (Entry& entry : entries_) all.push_back(&entry);
  update(all, lr, clip);
}

void Optimizer::update(std::span<Parameter* const> parameters, double lr, const GradientClip& clip) {
  std::vector<Entry*> entries;
  for (const Parameter* const parameter : parameters) {
    if (!parameter->trainable() || !parameter->grad().defined()) continue;
    const auto found = index_.find(parameter);
    expect(found != index_.end(), "{} cannot be updated: it is in no parameter group", parameter->path());
    entries.push_back(&entries_[found->second]);
  }
  update(entries, lr, clip);
}

void Optimizer::update(std::span<Entry* const> entries, double lr, const GradientClip& clip) const {
  expect(std::isfinite(lr) && lr >= 0, "learning rate: expected a finite number, 0 or more, got {}", lr);
  std::vector<Update> updates;
  std::vector<Tensor> values;  // of the parameters
  values.reserve(entries.size());
  for (Entry* const entry : entries) {
    if (!entry->parameter->trainable() || !entry->parameter->grad().defined() || entry->owner != rank_) continue;
    const Tensor& stored = entry->parameter->tensor();
    const Tensor& parameter = values.emplace_back(stored.is_coded() ? stored.as_bf16() : stored);
    const Tensor& gradient = entry->parameter->grad();
    expect(gradient.shape() == parameter.shape() && (gradient.dtype() == DType::f32 || gradient.dtype() == DType::bf16),
           "{}: expected a gradient of {} f32 or bf16, got {} {}", entry->parameter->path(), parameter.shape(),
           gradient.shape(), name_of(gradient.dtype()));
    if (!entry->step.defined()) allocate_state(*entry);
    updates.push_back({.parameter = parameter,
                       .compensation = entry->compensation,
                       .gradient = gradient,
                       .state = entry->state,
                       .step = entry->step,
                       .rate = {.lr = lr * entry->lr_scale, .weight_decay = entry->weight_decay},
                       .clip = clip,
                       .seed = seed_,
                       .site = random_site(entry->parameter->path())});
  }
  if (updates.empty()) return;
  update(updates);
  for (const Update& what : updates) what.parameter.bump_version();
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
    for (const OptimizerState& state : entry.state)
      all.push_back({fmt::format("{}.{}", path, state.name()), state.tensor()});
    all.push_back({path + ".step", entry.step});
    if (entry.compensation.defined()) all.push_back({path + ".compensation", entry.compensation});
  }
  if (loss_scale_) {
    all.push_back({fmt::format("{}.scale", loss_scale_name), loss_scale_->scale()});
    all.push_back({fmt::format("{}.good_steps", loss_scale_name), loss_scale_->good_steps()});
  }
  return all;
}

Registry<OptimizerKind>& optimizers() {
  static Registry<OptimizerKind> registry("optimizer");
  return registry;
}

Fields DecayOptions::fields() {
  return {field("weight_decay", &DecayOptions::weight_decay, "weight decay"),
          field("decay_norm_and_bias", &DecayOptions::decay_norm_and_bias,
                "whether norms, biases, the class token and position embeddings decay too")};
}

std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptionValues& given, const Module& model,
                                          const OptimizerOptions& options) {
  const OptimizerKind& kind = optimizers().get(name);
  const Options checked = read_options(fmt::format("optimizer {}", name), kind.options, given);
  GroupRules rules = options.groups;
  rules.weight_decay = kind.decay(checked).weight_decay;
  rules.decay_norm_and_bias = kind.decay(checked).decay_norm_and_bias;
  return kind.make(checked, {parameter_groups(model, rules), options.precision, options.seed, options.rank,
                             options.ranks, options.loss_scale, hidden_matrices(model), options.rounding});
}

}  // namespace lacuna
