// One step of a trainer: forward, backward, exchange, clip, update, average.
#include "autograd/policies/adaptive.h"
#include "autograd/policy.h"
#include "autograd/tape.h"
#include "core/collectives.h"
#include "core/ledger.h"
#include "core/random.h"
#include "models/io/safetensors.h"
#include "models/trainer.h"
#include "ops/arithmetic/arithmetic.h"
#include "optim/loss_scale.h"
#include "optim/shard.h"
#include "optim/step.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <unordered_set>
#include <utility>

namespace lacuna {
namespace {

/// At this loss scale, a non-finite gradient is no overflow any more: the run fails.
constexpr double least_loss_scale = 0x1p-16;

std::int64_t samples_of(const std::vector<Batch>& batch) {
  return std::accumulate(batch.begin(), batch.end(), std::int64_t{0},
                         [](std::int64_t sum, const Batch& part) { return sum + part.samples; });
}

/// Each rank calibrates on its own samples. All take the state of rank 0, which checkpoints hold.
void share_state(MemoryPolicy& policy, Communicator& ranks) {
  if (ranks.size() == 1) return;
  std::map<std::string, Tensor> state = policy.state();
  std::vector<TensorDescription> descriptions;
  for (const auto& [name, tensor] : state) descriptions.push_back({name, tensor.dtype(), tensor.shape()});
  if (largest_of_ranks(ranks, std::ssize(descriptions)) == 0) return;
  std::map<std::string, Tensor> shared;
  for (const auto& [name, dtype, shape, stored_type] :
       parse_descriptions(broadcast_text(ranks, to_json(descriptions)))) {
    const Tensor tensor = ranks.rank() == 0 ? state.at(name) : Tensor::empty(shape, dtype, Device::cpu);
    ranks.broadcast(tensor, 0);
    shared.emplace(name, tensor);
  }
  if (ranks.rank() != 0) policy.set_state(shared);
}

}  // namespace

StepResult Trainer::step(std::vector<Batch> batch, std::int64_t number, double learning_rate, const StepHooks& hooks) {
  StepResult result = *step(work_of(std::move(batch)), number, learning_rate, hooks, {}, false);
  if (!result.finite()) leave_captured();  // it would update nothing from here on
  return result;
}

Trainer::Work Trainer::work_of(std::vector<Batch> batch) const {
  Work work;
  for (const Batch& part : batch) work.weights.push_back(task_.weight(part, TaskMode::train));
  work.batch = std::move(batch);
  const Adaptive* const adaptive = adaptive_of(state_.policy);
  const bool calibrates = adaptive != nullptr && adaptive->calibration_due();
  if (captures_steps() && !calibrates && state_.model.context().device.kind == DeviceKind::cuda)
    for (Batch& part : work.batch) part = task_.prepared(std::move(part));
  return work;
}

std::optional<StepResult> Trainer::step(Work work, std::int64_t number, double learning_rate, const StepHooks& hooks,
                                        const std::function<void()>& meanwhile, bool may_wait) {
  StepResult result;
  state_.ranks.describe("training step");
  open_exchange();
  const Adaptive* const adaptive = adaptive_of(state_.policy);
  const bool calibrates = adaptive != nullptr && adaptive->calibration_due();
  std::vector<Batch>& batch = work.batch;
  const Agreement agreed = agree(work.weights, calibrates ? leave_captured() : way_of(batch, hooks, result));
  if (agreed.way == Way::replayed || (agreed.way == Way::captured && capture(batch, hooks, result)))
    return replay(work, agreed, number, learning_rate, meanwhile, may_wait, std::move(result));
  make_room();
  const std::int64_t held = ledger(state_.model.context().device).total();
  state_.model.set_training(true);
  {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    const RandomStateScope random(
        {.seed = options_.step.seed,
         .step = static_cast<std::uint32_t>(number),
         .first_sample = static_cast<std::uint32_t>(samples_of(batch) * state_.ranks.rank())});
    // If no part has a label, the next step calibrates.
    const auto part =
        std::ranges::find_if(batch, [&](const Batch& each) { return calibrates && shows_something(each); });
    if (part != batch.end() && calibrate(*part, state_.policy))
      result.calibration_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  OptimizerStep update(state_.optimizer, parameters_, learning_rate, options_.step.clipping);
  RunningTotals totals(task_);
  try {
    const std::vector<Factor> weights(work.weights.begin(), work.weights.end()),
        shares(agreed.shares.begin(), agreed.shares.end());
    result.saved_bytes = queue(batch, weights, shares, number, update, totals, hooks);
    finish(update, number, result);
  } catch (...) {
    state_.optimizer.zero_grad();  // of the parts before: the next step begins anew
    throw;
  }
  note_need(held);
  result.totals = totals.read(state_.ranks);
  share_state(state_.policy, state_.ranks);
  return result;
}

Trainer::Agreement Trainer::agree(std::span<const double> weights, Way wish) const {
  std::vector<double> mine{static_cast<double>(wish)};
  mine.insert(mine.end(), weights.begin(), weights.end());
  Agreement agreed{.way = wish, .shares = {}};
  double whole = 0;  // added in the order of the samples: the bits of one process
  for (const std::vector<double>& of_rank : all_gather_numbers(state_.ranks, mine)) {
    agreed.way = std::min(agreed.way, static_cast<Way>(of_rank.front()));
    for (const double weight : std::span(of_rank).subspan(1)) whole += weight;
  }
  for (const double weight : weights) agreed.shares.push_back(whole > 0 ? weight / whole : 0);
  return agreed;
}

std::int64_t Trainer::queue(std::vector<Batch>& batch, std::span<const Factor> weights, std::span<const Factor> shares,
                            std::int64_t number, OptimizerStep& update, RunningTotals& totals, const StepHooks& hooks,
                            const std::uint32_t* clock) {
  // With several micro-batches all gradients exist before the last one, so a second backward pass saves nothing.
  const bool in_backward = options_.step.in_backward && (batch.size() == 1 || !update.needs_all());
  std::int64_t first_sample = samples_of(batch) * state_.ranks.rank(), saved_bytes = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const RandomStateScope random({.seed = options_.step.seed,
                                   .step = static_cast<std::uint32_t>(number),
                                   .first_sample = static_cast<std::uint32_t>(first_sample),
                                   .clock = clock});
    first_sample += batch[i].samples;
    Tape tape(state_.policy);
    tape.set_observer(hooks.observer);
    const Variable of_part = [&] {
      const Recording recording(tape);
      const std::int64_t samples = batch[i].samples;
      // A single micro-batch is moved, so that forward frees it early; a captured step reads its batch again.
      const bool is_needed = batch.size() > 1 || clock != nullptr;
      Batch own = is_needed ? batch[i] : std::move(batch[i]);
      if (batch.size() == 1 && clock != nullptr && state_.policy.quantizes())
        for (const auto& [name, tensor] : batch[i])  // answers depend on whether forward alone has a tensor
          own.set(name, tensor.clone());
      const TaskResult of_task = result_of(std::move(own));
      totals.add(of_task, samples, weights[i]);
      return of_task.loss;
    }();
    const Tensor& value = of_part.tensor();
    update.add_loss(value, shares[i]);
    tape.finalize();
    if (hooks.after_forward) hooks.after_forward(tape);
    const std::vector losses{std::pair{of_part, update.loss_gradient(value, shares[i])}};
    if (i + 1 == batch.size())
      backward(tape, losses, update, in_backward);
    else
      backward_of_parameters(tape, losses, parameters_);
    saved_bytes = std::max(saved_bytes, tape.saved_bytes());
  }
  // A finite loss may have non-finite gradients. Parameters updated by them could not be saved.
  if (!exchange_) update.measure(parameters_);
  update.apply(parameters_);
  update.end();
  return saved_bytes;
}

/// Backward of the last micro-batch. The gradients that are left afterwards are those of all ranks, and measured.
void Trainer::backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses, OptimizerStep& update,
                       bool in_backward) {
  if (exchange_) {
    update.add_losses_of(ranks_of_device());
    exchange_in_backward(tape, losses, update, in_backward);
    if (exchange_->goes_to_owners() && !(in_backward && update.needs_all())) update.add_norms_of(ranks_of_device());
    return;
  }
  if (in_backward) return step_in_backward(tape, losses, update);
  // A plan has one rank. It frees the gradients that other ranks would own.
  const bool frees = options_.step.shard_gradients && state_.optimizer.is_sharded();
  backward_of_parameters(tape, losses, parameters_, [&](Parameter& parameter) {
    if (frees && !state_.optimizer.holds(parameter)) parameter.set_grad({});
  });
}

void Trainer::exchange_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses,
                                   OptimizerStep& update, bool in_backward) {
  std::unordered_set<const Parameter*> added;
  const auto add = [&](Parameter& parameter) {
    added.insert(&parameter);
    exchange_->add(parameter);
    if (!exchange_->goes_to_owners()) return;
    while (Parameter* const done = exchange_->next(exchange_->is_behind())) update.measure(*done);  // frees the others'
  };
  if (in_backward)
    step_in_backward(tape, losses, update, exchange_.get());
  else
    backward_of_parameters(tape, losses, update.parameters(), add);
  for (Parameter* parameter : update.parameters())  // that the last micro-batch did not reach
    if (parameter->trainable() && parameter->grad().defined() && !added.contains(parameter)) add(*parameter);
  exchange_->flush();
  while (Parameter* const done = exchange_->next(true)) update.measure(*done);
}

void Trainer::note(const StepReport& report, StepResult& result) const {
  result.loss = report.loss;
  result.gradient_norm = report.gradient_norm;
  result.updated = report.updated;
  result.loss_scale = report.loss_scale;
  result.overflowed = report.loss_scale > least_loss_scale && std::isfinite(report.loss) &&
                      !std::isfinite(report.gradient_norm) && state_.optimizer.loss_scale() != nullptr;
  if (report.nonfinite != nullptr) result.nonfinite = report.nonfinite->path();
}

void Trainer::finish(const OptimizerStep& update, std::int64_t number, StepResult& result) {
  const StepReport report = update.report();  // the host waits for the device here
  note(report, result);
  if (state_.optimizer.is_sharded() && state_.ranks.size() > 1) {  // a plan has one rank's part alone
    result.updated = largest_of_ranks(state_.ranks, report.updated ? 1 : 0) > 0;
    if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm))
      share_updates(state_.optimizer, parameters_, ranks_of_device());
  }
  if (result.finite() && !result.overflowed && state_.average != nullptr) state_.average->update(number);
  state_.optimizer.zero_grad();
}

void Trainer::open_exchange() {
  if (state_.ranks.size() == 1 || exchange_) return;
  const Device device = state_.model.context().device;
  if (device.kind == DeviceKind::cuda && !device_ranks_) device_ranks_ = device_ranks(device, state_.ranks);
  std::int64_t trained = 0;
  for (const Parameter* const parameter : parameters_)
    if (parameter->trainable()) trained += parameter->tensor().bytes();
  exchange_ = std::make_unique<GradientExchange>(ranks_of_device(), trained, options_.step.exchange);
}

TaskResult Trainer::result_of(Batch batch) {
  Inputs inputs(std::move(batch));
  if (options_.step.input_gradients)
    for (const SampleField& field : state_.model.inputs()) {
      const Variable input = inputs.take(field.name, state_.model.context().device);
      const bool has_gradient = is_floating(input.dtype());
      const Tensor values = has_gradient ? input.tensor().to(state_.model.context().dtype) : input.tensor();
      inputs.set(field.name, Variable(values, has_gradient, field.name));
    }
  return task_.run(state_.model, std::move(inputs), TaskMode::train);
}

bool Trainer::shows_something(const Batch& part) const {
  return state_.model.context().device == Device::meta || task_.weight(part, TaskMode::train) > 0;
}

bool Trainer::calibrate(const Batch& batch, MemoryPolicy& policy) {
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
  std::int64_t samples = std::min(batch.samples, std::max(batch.samples / share, least));
  while (samples < batch.samples && !shows_something(batch.part(0, samples)))
    samples = std::min(batch.samples, 2 * samples);
  const CalibrationStep part = [&] { return scaled_loss(batch.part(0, samples)); };
  adaptive->calibrate(held_bits, [&] { return calibrate_in_backward(policy, part, error_measure()); });
  return true;
}

ErrorMeasure Trainer::error_measure() const {
  return state_.optimizer.is_scale_invariant() ? ErrorMeasure::relative : ErrorMeasure::absolute;
}

}  // namespace lacuna
