#include "models/task_step.h"

#include "autograd/policies/adaptive.h"
#include "autograd/policy.h"
#include "core/collectives.h"
#include "models/io/safetensors.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/losses/loss_kernels.h"
#include "optim/loss_scale.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace lacuna {
namespace {

/// Ranks learn from their own samples. All go on with what rank 0 has learnt, which is what checkpoints hold.
void share_state(MemoryPolicy& policy, Communicator& ranks) {
  if (ranks.size() == 1) return;
  std::map<std::string, Tensor> state = policy.state();
  std::vector<TensorDescription> descriptions;
  for (const auto& [name, tensor] : state) descriptions.push_back({name, tensor.dtype(), tensor.shape()});
  if (largest_of_ranks(ranks, std::ssize(descriptions)) == 0) return;
  std::map<std::string, Tensor> shared;
  for (const auto& [name, dtype, shape] : parse_descriptions(broadcast_text(ranks, to_json(descriptions)))) {
    const Tensor tensor = ranks.rank() == 0 ? state.at(name) : Tensor::empty(shape, dtype, Device::cpu);
    ranks.broadcast(tensor, 0);
    shared.emplace(name, tensor);
  }
  if (ranks.rank() != 0) policy.set_state(shared);
}

}  // namespace

TaskStep::TaskStep(const TrainedState& state, const Task& task, const TaskStepOptions& options)
    : state_(state),
      task_(task),
      options_(options),
      step_(state.model, state.optimizer, state.policy, options.step, state.average, state.ranks) {}

Variable TaskStep::loss(Batch batch, RunningTotals* totals) {
  const std::int64_t samples = batch.samples;
  Inputs inputs(std::move(batch));
  if (options_.input_gradients)
    for (const SampleField& field : state_.model.inputs()) {
      const Variable input = inputs.take(field.name, state_.model.context().device);
      const bool has_gradient = is_floating(input.dtype());
      const Tensor values = has_gradient ? input.tensor().to(state_.model.context().dtype) : input.tensor();
      inputs.set(field.name, Variable(values, has_gradient, field.name));
    }
  const TaskResult result = task_.run(state_.model, std::move(inputs), TaskMode::train);
  if (totals != nullptr) totals->add(result, samples);
  return result.loss;
}

bool TaskStep::calibrate(const Batch& batch, MemoryPolicy& policy) {
  Adaptive* const adaptive = adaptive_of(policy);
  if (adaptive == nullptr || !adaptive->calibration_due()) return false;
  // Sensitivities are weighed against each other: a factor that all gradients have changes nothing.
  const LossScale* const scale = state_.optimizer.loss_scale();
  const auto scaled_loss = [&](const Batch& samples) {
    Variable of_samples = loss(samples);
    return scale == nullptr ? of_samples : apply(Scale{.factor = scale->scale().item()}, std::move(of_samples));
  };
  if (adaptive->by_draws()) {
    const CalibrationStep whole = [&] { return scaled_loss(batch); };
    adaptive->calibrate(0, [&] { return calibrate_by_draws(policy, whole, error_measure()); });
    return true;
  }
  // A sixth of a batch at 8 bits takes less memory than all of it at two, though the batch is held besides, and tells
  // as much about what tensors are worth beside each other. Norms over the batch need two samples.
  constexpr std::int64_t share = 6, least = 2;
  constexpr int held_bits = 8;
  const std::int64_t samples = std::min(batch.samples, std::max(batch.samples / share, least));
  const CalibrationStep part = [&] { return scaled_loss(batch.part(0, samples)); };
  adaptive->calibrate(held_bits, [&] { return calibrate_in_backward(policy, part, error_measure()); });
  return true;
}

TrainResult TaskStep::run(std::vector<Batch> batch, std::int64_t number, double learning_rate,
                          const TaskStepHooks& hooks) {
  TrainResult result;
  if (std::optional<TrainResult> replayed = run_graph(batch, number, learning_rate, hooks, result.not_captured))
    return *replayed;
  using Clock = std::chrono::steady_clock;
  std::vector<std::int64_t> samples;
  for (const Batch& part : batch) samples.push_back(part.samples);
  RunningTotals totals(task_);
  const auto calibrate_first = [&](std::size_t part) {
    const Clock::time_point begin = Clock::now();
    if (part == 0 && calibrate(batch[part], state_.policy))
      result.calibration_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  };
  // One part alone may free its memory in forward; several are views of one memory.
  const auto loss_of = [&](std::size_t part) {
    return loss(batch.size() == 1 ? std::move(batch[part]) : batch[part], &totals);
  };
  static_cast<StepResult&>(result) = step_.run({.samples = samples,
                                                .loss = loss_of,
                                                .before = calibrate_first,
                                                .after_forward = hooks.after_forward,
                                                .observer = hooks.observer},
                                               number, learning_rate);
  result.totals = totals.read(state_.ranks);
  share_state(state_.policy, state_.ranks);
  return result;
}

std::optional<std::string> TaskStep::signature_of(const std::vector<Batch>& batch, const TaskStepHooks& hooks) const {
  const Device device = state_.model.context().device;
  Adaptive* const adaptive = adaptive_of(state_.policy);
  if (!options_.graph || device.kind != DeviceKind::cuda || state_.ranks.size() > 1 || !task_.reads_by_kernels() ||
      options_.input_gradients || hooks.observer != nullptr || (adaptive != nullptr && adaptive->calibration_due()))
    return {};
  std::string signature;
  for (const Batch& part : batch) {
    if (!part.packed().empty()) return {};  // the host reads where each sample begins
    signature += fmt::format("{} samples:", part.samples);
    for (const auto& [name, tensor] : part)
      signature += fmt::format(" {} {} {}", name, name_of(tensor.dtype()), tensor.shape());
  }
  for (const Parameter* const parameter : state_.model.parameters()) signature += parameter->trainable() ? '1' : '0';
  return signature;
}

void TaskStep::forget_graph() {
  step_.forget();
  inputs_.clear();
  totals_.reset();
}

void TaskStep::check_numbers(const Batch& batch) const {
  for (const SampleField& target : task_.targets())
    if (target.below > 0 && batch.contains(target.name) && batch[target.name].dtype() == DType::i64)
      check_labels(Device::cpu, batch[target.name].to(Device::cpu), target.below);
}

std::optional<TrainResult> TaskStep::run_graph(const std::vector<Batch>& batch, std::int64_t number,
                                               double learning_rate, const TaskStepHooks& hooks, std::string& problem) {
  constexpr std::int64_t steps_before = 2;  // they make the plans of libraries, and everything that is made once
  const std::optional<std::string> signature = signature_of(batch, hooks);
  if (signature != signature_) {
    forget_graph();
    signature_ = signature;
    alike_ = 0;
  }
  if (!signature || alike_++ < steps_before) return {};
  if (!step_.is_captured()) {
    if (alike_ > steps_before + 1) return {};  // it could not be
    inputs_ = batch;
    for (Batch& part : inputs_)
      for (const auto& [name, tensor] : Batch(part))
        part.set(name, Tensor::empty(tensor.shape(), tensor.dtype(), state_.model.context().device, Purpose::data));
    totals_ = std::make_unique<RunningTotals>(task_);
    std::vector<std::int64_t> samples;
    for (const Batch& part : inputs_) samples.push_back(part.samples);
    try {
      step_.capture({.samples = samples,
                     .loss = [&](std::size_t part) { return loss(inputs_[part], totals_.get()); },
                     .after_forward = hooks.after_forward});
    } catch (const Error& error) {
      problem = error.what();
      forget_graph();
      return {};
    }
  }
  for (const Batch& part : batch) check_numbers(part);  // the device does not
  for (std::size_t i = 0; i < batch.size(); ++i)
    for (const auto& [name, tensor] : batch[i]) inputs_[i].at(name).copy_from(tensor);
  TrainResult result;
  static_cast<StepResult&>(result) = step_.replay(number, learning_rate);
  result.totals = totals_->read(state_.ranks);
  return result;
}

}  // namespace lacuna
