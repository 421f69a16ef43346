#include "optim/train_step.h"

#include "core/collectives.h"
#include "core/random.h"
#include "optim/shard.h"
#include "optim/step.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lacuna {

TrainStep::TrainStep(Module& model, Optimizer& optimizer, MemoryPolicy& policy, const TrainStepOptions& options,
                     WeightAverage* average, Communicator& ranks)
    : model_(model), optimizer_(optimizer), policy_(policy), options_(options), average_(average), ranks_(ranks) {}

ErrorMeasure TrainStep::error_measure() const {
  return optimizer_.is_scale_invariant() ? ErrorMeasure::relative : ErrorMeasure::absolute;
}

void TrainStep::exchange_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses,
                                     OptimizerStep& update, bool in_backward) {
  std::unordered_set<const Parameter*> added;
  const auto add = [&](Parameter& parameter) {
    added.insert(&parameter);
    exchange_->add(parameter);
  };
  if (in_backward)
    step_in_backward(tape, losses, update, exchange_.get());
  else
    backward_of_parameters(tape, losses, update.parameters(), add);
  for (Parameter* parameter : update.parameters())  // that the last micro-batch did not reach
    if (parameter->trainable() && parameter->grad().defined() && !added.contains(parameter)) add(*parameter);
  exchange_->flush();
  while (const Parameter* const done = exchange_->next(true)) update.measure(*done);
}

StepResult TrainStep::run(const StepParts& parts, std::int64_t number, double lr) {
  model_.set_training(true);
  ranks_.describe("training step");
  StepResult result;
  const std::int64_t of_rank = std::accumulate(parts.samples.begin(), parts.samples.end(), std::int64_t{0});
  const auto samples = static_cast<double>(of_rank * ranks_.size());
  if (ranks_.size() > 1 && !exchange_) exchange_ = std::make_unique<GradientExchange>(ranks_, options_.exchange);
  const std::vector<Parameter*> parameters = model_.parameters();
  OptimizerStep update(optimizer_, parameters, lr, options_.clipping);
  // Gradients of several micro-batches exist all at once before the last one: a second backward pass would save
  // nothing.
  const bool in_backward = options_.in_backward && (parts.samples.size() == 1 || !update.needs_all());
  std::int64_t first_sample = of_rank * ranks_.rank();
  for (std::size_t i = 0; i < parts.samples.size(); ++i) {
    const RandomStateScope random({.seed = options_.seed,
                                   .step = static_cast<std::uint32_t>(number),
                                   .first_sample = static_cast<std::uint32_t>(first_sample)});
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
    const std::vector losses{std::pair{loss, Tensor::full(value.shape(), share, value.dtype(), value.device())}};
    const bool is_last = i + 1 == parts.samples.size();
    if (is_last && exchange_) {
      update.add_losses_of(ranks_);
      exchange_in_backward(tape, losses, update, in_backward);
    } else if (is_last && in_backward) {
      step_in_backward(tape, losses, update);
    } else {
      backward_of_parameters(tape, losses, parameters);
    }
    result.saved_bytes = std::max(result.saved_bytes, tape.saved_bytes());
  }
  // Finite losses may have gradients that are not, and parameters that took them could not be saved any more.
  if (!exchange_)
    for (const Parameter* parameter : parameters) update.measure(*parameter);
  for (Parameter* parameter : parameters) update.apply(*parameter);
  const StepReport report = update.report();  // the only place where the host waits for the device
  result.loss = report.loss;
  result.gradient_norm = report.gradient_norm;
  result.updated = report.updated;
  if (optimizer_.is_sharded() && ranks_.size() > 1) {  // a plan has one rank's part alone
    result.updated = largest_of_ranks(ranks_, report.updated ? 1 : 0) > 0;
    if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm))
      share_updates(optimizer_, parameters, ranks_);
  }
  if (report.nonfinite != nullptr) result.nonfinite = report.nonfinite->path();
  if (result.finite() && average_ != nullptr) average_->update(number);
  optimizer_.zero_grad();
  return result;
}

}  // namespace lacuna
