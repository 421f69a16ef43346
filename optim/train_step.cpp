#include "optim/train_step.h"

#include "autograd/tape.h"
#include "core/backend.h"
#include "core/collectives.h"
#include "core/device_graph.h"
#include "core/random.h"
#include "optim/shard.h"
#include "optim/step.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

/// Below it a gradient that is not finite is none for any scale.
constexpr double least_loss_scale = 0x1p-16;

/// The numbers that a replay reads from the host.
struct StepNumbers {
  double rate;
  std::uint32_t step;
};

}  // namespace

struct TrainStep::Queued {
  Queued(std::vector<Parameter*> of, Optimizer& optimizer, double lr, const Clipping& clipping)
      : parameters(std::move(of)), update(optimizer, parameters, lr, clipping) {}
  Queued(std::vector<Parameter*> of, Optimizer& optimizer, const Tensor& rate, const Clipping& clipping)
      : parameters(std::move(of)), update(optimizer, parameters, rate, clipping) {}

  std::vector<Parameter*> parameters;
  OptimizerStep update;
  std::int64_t saved_bytes = 0;
};

struct TrainStep::Captured {
  explicit Captured(Device device)
      : numbers(Tensor::zeros({2}, DType::f64, device, Purpose::workspace)), rate(numbers.leading(0, 1)) {
    static_assert(sizeof(StepNumbers) == 2 * sizeof(double));
  }
  const std::uint32_t* clock() const {
    return reinterpret_cast<const std::uint32_t*>(numbers.data<const std::byte>() + offsetof(StepNumbers, step));
  }

  Tensor numbers;  // the bytes of StepNumbers
  Tensor rate;     // their first
  std::unique_ptr<Queued> queued{};
  std::unique_ptr<DeviceGraph> graph{};  // destroyed first: what `queued` holds is free for all then
};

TrainStep::TrainStep(Module& model, Optimizer& optimizer, MemoryPolicy& policy, const TrainStepOptions& options,
                     WeightAverage* average, Communicator& ranks)
    : model_(model), optimizer_(optimizer), policy_(policy), options_(options), average_(average), ranks_(ranks) {
  if (options.shard_gradients) options_.exchange.owners = &optimizer;
}

TrainStep::~TrainStep() = default;
TrainStep::TrainStep(TrainStep&&) noexcept = default;

ErrorMeasure TrainStep::error_measure() const {
  return optimizer_.is_scale_invariant() ? ErrorMeasure::relative : ErrorMeasure::absolute;
}

void TrainStep::exchange_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses,
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

StepResult TrainStep::run(const StepParts& parts, std::int64_t number, double lr) {
  return finish(*queue(parts, number, lr, nullptr), number);
}

void TrainStep::capture(const StepParts& parts) {
  expect(ranks_.size() == 1, "a step of {} ranks cannot be captured", ranks_.size());
  forget();
  const Device device = model_.context().device;
  auto captured = std::make_unique<Captured>(device);
  try {
    captured->graph =
        std::make_unique<DeviceGraph>(device, [&] { captured->queued = queue(parts, 0, 0, captured.get()); });
  } catch (...) {
    optimizer_.zero_grad();
    throw;
  }
  captured_ = std::move(captured);
}

StepResult TrainStep::replay(std::int64_t number, double lr) {
  expect(is_captured(), "there is no captured step to replay");
  const StepNumbers numbers{.rate = lr, .step = static_cast<std::uint32_t>(number)};
  const Device device = captured_->numbers.device();
  backend(device).copy_in(stream_of(device), captured_->numbers.raw(), &numbers, sizeof numbers);
  captured_->graph->replay();
  for (const Parameter* const parameter : captured_->queued->parameters)
    if (parameter->trainable()) parameter->tensor().bump_version();
  return finish(*captured_->queued, number);
}

void TrainStep::forget() { captured_.reset(); }

std::int64_t TrainStep::captured_bytes() const { return is_captured() ? captured_->graph->bytes() : 0; }

std::unique_ptr<TrainStep::Queued> TrainStep::queue(const StepParts& parts, std::int64_t number, double lr,
                                                    const Captured* captured) {
  model_.set_training(true);
  ranks_.describe("training step");
  const std::int64_t of_rank = std::accumulate(parts.samples.begin(), parts.samples.end(), std::int64_t{0});
  const auto samples = static_cast<double>(of_rank * ranks_.size());
  if (ranks_.size() > 1 && !exchange_) {
    const Device device = model_.context().device;
    if (device.kind == DeviceKind::cuda) device_ranks_ = device_ranks(device, ranks_);
    std::int64_t trained = 0;
    for (const Parameter* const parameter : model_.parameters())
      if (parameter->trainable()) trained += parameter->tensor().bytes();
    exchange_ = std::make_unique<GradientExchange>(ranks_of_device(), trained, options_.exchange);
  }
  std::unique_ptr<Queued> queued =
      captured != nullptr ? std::make_unique<Queued>(model_.parameters(), optimizer_, captured->rate, options_.clipping)
                          : std::make_unique<Queued>(model_.parameters(), optimizer_, lr, options_.clipping);
  const std::vector<Parameter*>& parameters = queued->parameters;
  OptimizerStep& update = queued->update;
  // Gradients of several micro-batches exist all at once before the last one: a second backward pass would save
  // nothing.
  const bool in_backward = options_.in_backward && (parts.samples.size() == 1 || !update.needs_all());
  std::int64_t first_sample = of_rank * ranks_.rank();
  for (std::size_t i = 0; i < parts.samples.size(); ++i) {
    const RandomStateScope random({.seed = options_.seed,
                                   .step = static_cast<std::uint32_t>(number),
                                   .first_sample = static_cast<std::uint32_t>(first_sample),
                                   .clock = captured != nullptr ? captured->clock() : nullptr});
    first_sample += parts.samples[i];
    if (parts.before) parts.before(i);
    Tape tape(policy_);
    tape.set_observer(parts.observer);
    const double share = static_cast<double>(parts.samples[i]) / samples;
    const Variable loss = [&] {
      const Recording recording(tape);
      return parts.loss(i);
    }();
    const Tensor& value = loss.tensor();
    update.add_loss(value, share);
    tape.finalize();
    if (parts.after_forward) parts.after_forward(tape);
    const std::vector losses{std::pair{loss, update.loss_gradient(value, share)}};
    const bool is_last = i + 1 == parts.samples.size();
    if (is_last && exchange_) {
      update.add_losses_of(ranks_of_device());
      exchange_in_backward(tape, losses, update, in_backward);
      if (exchange_->goes_to_owners() && !(in_backward && update.needs_all())) update.add_norms_of(ranks_of_device());
    } else if (is_last && in_backward) {
      step_in_backward(tape, losses, update);
    } else {
      // A plan has one rank, which is left the gradients that it would own.
      const bool frees = is_last && options_.shard_gradients && optimizer_.is_sharded();
      backward_of_parameters(tape, losses, parameters, [&](Parameter& parameter) {
        if (frees && !optimizer_.holds(parameter)) parameter.set_grad({});
      });
    }
    queued->saved_bytes = std::max(queued->saved_bytes, tape.saved_bytes());
  }
  // Finite losses may have gradients that are not, and parameters that took them could not be saved any more.
  if (!exchange_) update.measure(parameters);
  update.apply(parameters);
  update.adapt_loss_scale();
  return queued;
}

StepResult TrainStep::finish(const Queued& queued, std::int64_t number) {
  const StepReport report = queued.update.report();  // the only place where the host waits for the device
  StepResult result{.saved_bytes = queued.saved_bytes};
  result.loss = report.loss;
  result.gradient_norm = report.gradient_norm;
  result.updated = report.updated;
  result.loss_scale = report.loss_scale;
  result.overflowed = report.loss_scale > least_loss_scale && std::isfinite(report.loss) &&
                      !std::isfinite(report.gradient_norm) && optimizer_.loss_scale() != nullptr;
  if (optimizer_.is_sharded() && ranks_.size() > 1) {  // a plan has one rank's part alone
    result.updated = largest_of_ranks(ranks_, report.updated ? 1 : 0) > 0;
    if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm))
      share_updates(optimizer_, queued.parameters, ranks_of_device());
  }
  if (report.nonfinite != nullptr) result.nonfinite = report.nonfinite->path();
  if (result.finite() && !result.overflowed && average_ != nullptr) average_->update(number);
  optimizer_.zero_grad();
  return result;
}

}  // namespace lacuna
