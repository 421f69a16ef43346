#include "models/task_step.h"

#include "autograd/policies/adaptive.h"
#include "core/collectives.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

namespace lacuna {
namespace {

/// Ranks learn from their own samples. All go on with what rank 0 has learnt, which is what checkpoints hold.
void share_state(MemoryPolicy& policy, Communicator& ranks) {
  if (ranks.size() == 1) return;
  std::map<std::string, Tensor> state = policy.state();
  std::string names;
  for (const auto& [name, tensor] : state)
    names += fmt::format("{}\n{} {}\n", name, static_cast<int>(tensor.dtype()), fmt::join(tensor.shape(), " "));
  if (largest_of_ranks(ranks, std::ssize(names)) == 0) return;
  std::istringstream of_root(broadcast_text(ranks, names));
  std::map<std::string, Tensor> shared;
  for (std::string name, line; std::getline(of_root, name) && std::getline(of_root, line);) {
    std::istringstream numbers(line);
    int dtype = 0;
    numbers >> dtype;
    std::vector<std::int64_t> extents;
    for (std::int64_t extent = 0; numbers >> extent;) extents.push_back(extent);
    const Shape shape{std::span<const std::int64_t>(extents)};
    const Tensor tensor =
        ranks.rank() == 0 ? state.at(name) : Tensor::empty(shape, static_cast<DType>(dtype), Device::cpu);
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
      const Variable input = inputs.take(field.name);
      inputs.set(field.name, Variable(input.tensor(), is_floating(input.dtype()), field.name));
    }
  const TaskResult result = task_.run(state_.model, std::move(inputs), TaskMode::train);
  if (totals != nullptr) totals->add(result, samples);
  return result.loss;
}

bool TaskStep::calibrate(const Batch& batch, MemoryPolicy& policy) {
  Adaptive* const adaptive = adaptive_of(policy);
  if (adaptive == nullptr || !adaptive->calibration_due()) return false;
  if (adaptive->by_draws()) {
    const CalibrationStep whole = [&] { return loss(batch); };
    adaptive->calibrate(0, [&] { return calibrate_by_draws(policy, whole, error_measure()); });
    return true;
  }
  // A sixth of a batch at 8 bits takes less memory than all of it at two, though the batch is held besides, and tells
  // as much about what tensors are worth beside each other. Norms over the batch need two samples.
  constexpr std::int64_t share = 6, least = 2;
  constexpr int held_bits = 8;
  const std::int64_t samples = std::min(batch.samples, std::max(batch.samples / share, least));
  const CalibrationStep part = [&] { return loss(batch.part(0, samples)); };
  adaptive->calibrate(held_bits, [&] { return calibrate_in_backward(policy, part, error_measure()); });
  return true;
}

TrainResult TaskStep::run(std::vector<Batch> batch, std::int64_t number, double learning_rate,
                          const TaskStepHooks& hooks) {
  using Clock = std::chrono::steady_clock;
  TrainResult result;
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

}  // namespace lacuna
