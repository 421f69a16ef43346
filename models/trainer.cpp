#include "models/trainer.h"

#include "autograd/policies/adaptive.h"
#include "core/collectives.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace lacuna {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view advice = "; a lower learning rate, a longer warm-up or clipped gradients may help";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The model evaluates while this lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(Model& model) : model_(model), before_(model.training()) { model_.set_training(false); }
  ~EvaluationMode() { model_.set_training(before_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Model& model_;
  bool before_;
};

std::vector<DamagedFile> of_all_ranks(const std::vector<DamagedFile>& mine, Communicator& ranks) {
  if (ranks.size() == 1) return mine;
  using nlohmann::json;
  json list = json::array();
  for (const DamagedFile& file : mine) list.push_back({file.index, file.file, file.why, file.instead});
  std::vector<DamagedFile> all;
  for (const std::string& text : all_gather_texts(ranks, list.dump(-1, ' ', false, json::error_handler_t::replace)))
    for (const json& file : json::parse(text)) all.push_back({file[0], file[1], file[2], file[3]});
  return all;
}

/// DDP's start: all ranks go on from the values of rank 0.
void share_model(const TrainedState& state) {
  const Model& model = state.model;
  Communicator& ranks = state.ranks;
  ranks.describe("start");
  std::string names;
  std::int64_t trained = 0;
  for (const Parameter* parameter : model.parameters()) {
    names += fmt::format("{} {} {}\n", parameter->path(), parameter->shape(), parameter->trainable());
    if (parameter->trainable()) trained += parameter->tensor().count();
  }
  expect_same_on_all_ranks(ranks, "the model",
                           fmt::format("{} parameters, of which {} are trained (hash {:x})", model.parameter_count(),
                                       trained, std::hash<std::string>()(names)));
  for (const Parameter* parameter : model.parameters()) ranks.broadcast(parameter->tensor(), 0);
  for (const Buffer* buffer : model.buffers()) ranks.broadcast(buffer->tensor(), 0);
  if (state.average != nullptr) state.average->restart();
}

}  // namespace

double BestBy::value(const Evaluation& evaluation) const {
  if (name == "loss") return evaluation.loss;
  const auto found = evaluation.metrics.find(name);
  return found == evaluation.metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

BestBy best_by(const std::string& name, const Task& task) {
  std::string known = "loss";
  for (const Metric& metric : task.metrics()) {
    if (name.empty() || name == metric.name) return {metric.name, metric.higher_is_better};
    known += ", " + metric.name;
  }
  if (name != "loss") reject("train.best_by: expected one of {}, which this task gives; got {}", known, name);
  return {"loss", false};
}

std::optional<Evaluation> evaluate(Model& model, const Task& task, const Batches& batches, int workers,
                                   const std::function<bool(std::int64_t)>& stop, Communicator& ranks) {
  const EvaluationMode mode(model);
  ranks.describe("evaluation");
  if (ranks.size() > 1)
    for (const Buffer* buffer : model.buffers()) ranks.broadcast(buffer->tensor(), 0);
  Loader loader(batches, {.end_epoch = 1, .workers = workers});
  RunningTotals running(task);
  std::vector<DamagedFile> left_out;
  TaskTotals totals;      // of several ranks, in the order of the samples
  std::int64_t done = 0;  // samples of all ranks
  while (std::optional<Batch> batch = loader.next()) {
    if (stop && stop(done)) return {};
    done = std::min(done + batches.size(), batches.samples());
    std::ranges::move(batch->damaged, std::back_inserter(left_out));
    const auto add_to = [&](RunningTotals& sums) {
      const std::int64_t samples = batch->samples;
      if (samples == 0) return;
      const double weight = task.weight(*batch, TaskMode::evaluate);
      sums.add(task.run(model, std::move(*batch), TaskMode::evaluate), samples, weight);
    };
    if (ranks.size() == 1) {
      add_to(running);
      running.count_on_host();
      continue;
    }
    RunningTotals part(task);
    add_to(part);
    totals.add(part.read(ranks));
  }
  if (ranks.size() == 1) totals = running.read(ranks);
  left_out = of_all_ranks(left_out, ranks);
  if (std::ssize(left_out) == batches.samples())
    reject("{}: all {} files to evaluate on are damaged. The first: {}: {}", batches.info().name, left_out.size(),
           left_out.front().file, left_out.front().why);
  if (totals.weight == 0)
    reject("{}: expected samples to evaluate on with something to predict: none of the {} has a label",
           batches.info().name, totals.samples);
  Evaluation evaluation{.loss = totals.loss(), .samples = totals.samples, .left_out = std::move(left_out)};
  for (const auto& [name, value] : totals.values(task)) evaluation.metrics[name] = value;
  return evaluation;
}

Trainer::Trainer(const TrainedState& state, const Task& task, Batches train, Batches validation, TrainerOptions options)
    : Trainer(state, task, options.step) {
  options.step = options_.step;
  train_ = std::move(train);
  validation_ = std::move(validation);
  options_ = std::move(options);
  best_by_ = lacuna::best_by(options_.best_by, task);
  expect(train_->samples() >= train_->size(), "an epoch of {} samples has no batch of {}", train_->samples(),
         train_->size());
  expect(options_.learning_rate != nullptr, "a trainer needs a learning rate: make_schedule gives one");
  if (state_.ranks.size() > 1) share_model(state_);
  progress_.identity = identity();
}

const Batches& Trainer::train() const {
  expect(train_.has_value(), "a trainer without data takes single steps only; give it the batches of an epoch");
  return *train_;
}

bool Trainer::at_end() const {
  return whole_epochs() >= options_.epochs || (options_.steps > 0 && progress_.step >= options_.steps) ||
         out_of_patience();
}

bool Trainer::out_of_patience() const {
  return options_.patience > 0 && progress_.epochs_evaluated - progress_.best_epoch >= options_.patience;
}

std::int64_t Trainer::samples_begun() const {
  return progress_.totals.samples + (started_ ? started_->totals->samples() : 0);
}
std::int64_t Trainer::steps_begun() const { return progress_.step + (started_ ? 1 : 0); }

double Trainer::learning_rate() const {
  return options_.learning_rate(progress_.epochs_evaluated * steps_per_epoch() + samples_begun() / train().size());
}

LoaderOptions Trainer::loader_options() const {
  return {
      .first_epoch = progress_.epochs_evaluated, .first_sample = progress_.totals.samples, .workers = options_.workers};
}

std::vector<Batch> Trainer::next_batch() const {
  LoaderOptions one = loader_options();
  one.depth = 1;
  Loader loader(train(), one);
  return split_batch(*loader.next(), options_.accumulate);
}

void Trainer::save(const std::filesystem::path& folder) const {
  std::error_code failed;
  if (state_.ranks.rank() == 0 && std::filesystem::exists(std::filesystem::symlink_status(folder, failed)))
    reject("{} exists already: name another folder", folder.string());
  write_checkpoint(folder, state_, progress_);
}

std::map<std::string, std::string> Trainer::identity() const {
  std::map<std::string, std::string> all = options_.recorded;
  all.insert(options_.identity.begin(), options_.identity.end());
  return all;
}

std::int64_t Trainer::resume(const std::filesystem::path& folder) {
  Progress progress = read_manifest(folder).progress;
  std::string differences;
  for (const auto& [key, value] : options_.identity)
    if (const auto had = progress.identity.find(key); had == progress.identity.end() || had->second != value)
      differences +=
          fmt::format("\n  {}: {}, now {}", key == "data.train_size" ? "samples to train on (data.train_size)" : key,
                      had == progress.identity.end() ? "none" : had->second, value);
  for (const auto& [key, value] : progress.identity)
    if (!options_.identity.contains(key) && !options_.recorded.contains(key))
      differences += fmt::format("\n  {}: {}, now none", key, value);
  if (!differences.empty())
    reject(
        "{}: a run cannot be resumed with other values of these, which the order of the samples and the random numbers "
        "follow from:{}\nA new run with {}={} trains on from its weights",
        folder.string(), differences, state_.model.adaptation() ? "adapter.from" : "model.from", folder.string());
  if (progress.totals.samples > 0 && progress.epochs_evaluated >= options_.epochs)
    reject(
        "{}: the run is within epoch {}, and train.epochs is {}; give {} or more, and train.steps={} besides to end it "
        "here",
        folder.string(), progress.epochs_evaluated + 1, options_.epochs, progress.epochs_evaluated + 1, progress.step);
  const std::int64_t started_anew = load_checkpoint(folder, state_).started_anew;
  progress_ = std::move(progress);
  progress_.identity = identity();
  return started_anew;
}

bool Trainer::run(const TrainerEvents& events) {
  Loader loader(train(), loader_options());
  next_.reset();
  next_error_ = nullptr;
  bool evaluated = false;
  try {
    while ((evaluated = evaluate_if_due(events)) && !at_end() && !is_stopped(events)) take_step(loader, events);
  } catch (...) {
    settle();  // the step before is whole
    throw;
  }
  settle();
  return evaluated && at_end();
}

bool Trainer::is_stopped(const TrainerEvents& events) const {
  const bool mine = events.stop && events.stop();
  return state_.ranks.size() == 1 ? mine : largest_of_ranks(state_.ranks, mine ? 1 : 0) > 0;
}

Trainer::Work Trainer::next_work(Loader& loader) const {
  Batch batch = *loader.next();
  std::vector<DamagedFile> damaged = std::exchange(batch.damaged, {});
  Work work = work_of(split_batch(std::move(batch), options_.accumulate));
  work.damaged = std::move(damaged);
  return work;
}

void Trainer::take_step(Loader& loader, const TrainerEvents& events) {
  const Clock::time_point start = Clock::now();
  const double rate = learning_rate();
  if (next_error_) std::rethrow_exception(std::exchange(next_error_, nullptr));
  Work work = next_ ? *std::exchange(next_, {}) : next_work(loader);
  const std::vector<DamagedFile> replaced = std::exchange(work.damaged, {});
  if (events.before_step) events.before_step();
  const std::int64_t number = steps_begun();
  const bool is_last = samples_begun() + 2 * train().size() > train().samples() ||
                       (options_.steps > 0 && number + 1 >= options_.steps);
  const bool is_evaluated = options_.evaluate_every > 0 && (number + 1) % options_.evaluate_every == 0;
  const bool may_wait = !is_last && !is_evaluated && events.needs_state && !events.needs_state(number + 1);
  const auto meanwhile = [&] {
    if (is_last || captured_bytes() == 0 || !sends_ahead()) return;
    try {
      next_ = next_work(loader);
      send_ahead(*next_);
    } catch (...) {  // the step that runs is whole, and is told first
      next_error_ = std::current_exception();
    }
  };
  const auto tell = [this, &events, rate, start, replaced](StepResult result) {
    result.replaced = of_all_ranks(replaced, state_.ranks);
    if (!result.finite()) {
      leave_captured();  // it would update nothing from here on
      if (events.nonfinite) events.nonfinite(result);
      fail("step {}: the loss or its gradient is not finite{}", progress_.step + 1, advice);
    }
    ++progress_.step;
    progress_.totals.add(result.totals);
    const double seconds = seconds_since(std::max(start, told_));
    told_ = Clock::now();
    if (events.after_step) events.after_step(result, rate, seconds);
  };
  if (std::optional<StepResult> result = step(std::move(work), number, rate, events.hooks, meanwhile, may_wait))
    tell(*std::move(result));
  else
    started_->tell = tell;
}

bool Trainer::is_better(const Evaluation& evaluation) const {
  if (!progress_.best) return true;
  const double now = best_by_.value(evaluation), best = best_by_.value(*progress_.best);
  if (std::isnan(best)) return !std::isnan(now);  // a run that went on by another metric, say
  return best_by_.higher_is_better ? now > best : now < best;
}

bool Trainer::evaluate_if_due(const TrainerEvents& events) {
  const bool within = at_end() || (options_.evaluate_every > 0 && progress_.step % options_.evaluate_every == 0);
  const bool is_new = progress_.totals.samples > 0 && progress_.evaluated != progress_.step;
  if (!epoch_over() && !(within && is_new)) return true;
  const Clock::time_point start = Clock::now();
  release_captured();  // or an evaluation would need its memory beside that of a step
  const auto evaluate_now = [&] {
    const auto stop = [&](std::int64_t done) {
      if (events.evaluating) events.evaluating(done, validation_->samples());
      return is_stopped(events);
    };
    return evaluate(state_.model, task_, *validation_, options_.workers, stop, state_.ranks);
  };
  const std::optional<Evaluation> evaluation = [&] {
    const WeightAverage::Exchange exchange(state_.average);
    return evaluate_now();
  }();
  if (!evaluation) return false;
  std::optional<Evaluation> without_average;
  if (state_.average != nullptr && !(without_average = evaluate_now())) return false;
  const EpochResult result{.epoch = progress_.epochs_evaluated + 1,
                           .whole = epoch_over(),
                           .train = progress_.totals,
                           .validation = *evaluation,
                           .without_average = without_average,
                           .is_best = is_better(*evaluation),
                           .seconds = seconds_since(start)};
  if (!std::isfinite(evaluation->loss))
    fail("after step {} the validation loss is not finite{}", progress_.step, advice);
  progress_.evaluated = progress_.step;
  progress_.last = evaluation;
  if (result.is_best) {
    progress_.best = evaluation;
    progress_.best_epoch = progress_.epochs_evaluated + 1;
  }
  if (result.whole) {
    progress_.epochs_evaluated = whole_epochs();
    progress_.train_loss = progress_.totals.loss();
    progress_.totals = {};  // the next epoch is under way
  }
  if (events.after_epoch) events.after_epoch(result);
  return true;
}

}  // namespace lacuna
