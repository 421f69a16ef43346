#include "apps/train/trainer.h"
#include "autograd/policies/adaptive.h"

#include "apps/config/resolve.h"
#include "apps/train/evaluation.h"
#include "apps/train/fit.h"
#include "apps/train/interrupt.h"
#include "apps/train/measure.h"
#include "apps/train/nonfinite.h"
#include "core/file.h"
#include "core/system_memory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

constexpr std::string_view advice = "A lower optimizer.lr, a longer warm-up or train.clip_norm may help.";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A division of zero by zero gives -nan here, which tells no more.
double without_sign_of_nan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

std::shared_ptr<const Dataset> open(const Configuration& configuration, Split split) {
  return open_dataset(configuration.data.name, dataset_options(configuration, split));
}

/// Refused before anything is built where it does not fit. A run that goes on has its weights in a checkpoint.
Training make_training(Configuration configuration, bool resumed) {
  if (resumed) configuration.model.from.clear();
  require_fit(configuration, device_of(configuration), true);
  return Training(configuration, device_of(configuration));
}

std::int64_t correct_of(const TaskTotals& totals) {
  const auto found = totals.sums.find("accuracy");
  return found == totals.sums.end() ? 0 : static_cast<std::int64_t>(found->second.front());
}

std::string describe(const FreezeMatch& match) {
  std::int64_t count = 0;
  for (const Parameter* parameter : match.parameters) count += parameter->tensor().count();
  std::string text =
      fmt::format("  {:<24} {:>4} tensors {:>12} values:", match.pattern, match.parameters.size(), count);
  constexpr std::size_t shown = 4;
  for (std::size_t i = 0; i < std::min(shown, match.parameters.size()); ++i)
    text += fmt::format(" {} {}", match.parameters[i]->path(), match.parameters[i]->shape());
  return text + (match.parameters.size() > shown ? " ...\n" : "\n");
}

}  // namespace

Trainer::Trainer(const Configuration& resolved, bool resumed, std::FILE* stream)
    : configuration_(resolved),
      display_(stream),
      training_images_(open(resolved, Split::train)),
      validation_images_(open(resolved, Split::validation)),
      training_(make_training(resolved, resumed)),
      steps_per_epoch_(training_images_->size() / resolved.train.batch_size),
      schedule_(make_schedule(resolved.schedule.name, resolved.schedule.options,
                              {.lr = resolved.optimizer.lr,
                               .total_steps = resolved.train.epochs * steps_per_epoch_,
                               .steps_per_epoch = steps_per_epoch_})) {
  expect(steps_per_epoch_ > 0, "an epoch of {} images has no batch of {}", training_images_->size(),
         resolved.train.batch_size);
  place_.units = units();
}

std::map<std::string, std::string> Trainer::units() const {
  const Configuration& c = configuration_;
  return {{"train.seed", std::to_string(c.train.seed)},
          {"data.name", c.data.name},
          {"data.seed", std::to_string(c.data.seed)},
          {"data.train_size", std::to_string(training_images_->size())}};
}

bool Trainer::epoch_over() const { return place_.samples + configuration_.train.batch_size > training_images_->size(); }

bool Trainer::at_end() const {
  const Configuration::Train& train = configuration_.train;
  return whole_epochs() >= train.epochs || (train.steps > 0 && place_.step >= train.steps);
}

bool Trainer::measures_as_recorded() const {
  if (adaptive_of(training_.policy()) == nullptr) return false;
  try {
    const Configuration recorded = read_configuration(folder_->configuration(), {});
    const Configuration::Train &now = configuration_.train, &then = recorded.train;
    return recorded.memory.policy == configuration_.memory.policy &&
           recorded.memory.options == configuration_.memory.options && then.threads == now.threads &&
           then.batch_size == now.batch_size && then.accumulate == now.accumulate;
  } catch (const Error&) {  // -c stands for a record that is gone or damaged, and it is written anew
    return false;
  }
}

std::int64_t Trainer::scheduled_step() const {
  return place_.epochs_evaluated * steps_per_epoch_ + place_.samples / configuration_.train.batch_size;
}

LoadedCheckpoint Trainer::load(const RunFolder& folder, const fs::path& checkpoint) {
  try {
    return load_checkpoint(checkpoint, state());
  } catch (const Error& error) {
    if (!is_damaged(checkpoint)) throw;  // another model, another optimizer, another version
    const std::optional<fs::path> older = folder.whole_before(checkpoint);
    reject("{}\n{}", error.what(),
           older ? fmt::format("The checkpoint before it is whole: go on from there with --resume {}", older->string())
                 : "No checkpoint before it is whole: begin anew with -c CONFIG --overwrite");
  }
}

void Trainer::resume(const RunFolder& folder, const fs::path& checkpoint) {
  auto [place, started_anew] = load(folder, checkpoint);
  std::string differences;
  for (const auto& [key, value] : units())
    if (const auto had = place.units.find(key); had == place.units.end() || had->second != value)
      differences += fmt::format("\n  {}: {}, now {}", key, had == place.units.end() ? "none" : had->second, value);
  if (!differences.empty())
    reject(
        "{}: the run cannot go on with other values of these, since the order of the images and the random numbers "
        "follow from them: it would see some images twice in an epoch and others never:{}",
        checkpoint.string(), differences);
  const std::int64_t epochs = configuration_.train.epochs;
  if (place.samples > 0 && place.epochs_evaluated >= epochs)
    reject(
        "{}: the run is within epoch {}, and train.epochs is {}; give {} or more, and train.steps={} besides to end it "
        "here",
        checkpoint.string(), place.epochs_evaluated + 1, epochs, place.epochs_evaluated + 1, place.step);
  folder.go_back_to(checkpoint, place);
  place_ = std::move(place);
  started_anew_ = started_anew;
  saved_ = {place_.step, place_.epochs_evaluated};
}

std::optional<nlohmann::ordered_json> Trainer::finished(const RunFolder& folder) const {
  using nlohmann::ordered_json;
  if (place_.step == 0 || epoch_over() || !at_end()) return std::nullopt;
  std::ifstream metrics(folder.path() / "metrics.jsonl");
  std::string last;
  for (std::string line; std::getline(metrics, line);) last = std::move(line);
  const ordered_json noted = ordered_json::parse(last, nullptr, false);
  // A signal may have come before the last evaluation.
  if (!noted.is_object() || !noted.contains("val_loss") || noted.value("step", ordered_json()) != place_.step)
    return std::nullopt;
  std::ifstream stream(folder.summary());
  ordered_json summary = ordered_json::parse(stream, nullptr, false);
  if (!summary.is_object() || summary.contains("stopped") || summary.value("steps", ordered_json()) != place_.step)
    return std::nullopt;
  return summary;
}

int Trainer::run(const RunFolder& folder) {
  if (auto before = finished(folder)) {
    summary_ = std::move(*before);
    const Configuration::Train& train = configuration_.train;
    std::vector<std::string_view> ended;  // what ended it
    if (whole_epochs() >= train.epochs) ended.emplace_back("train.epochs");
    if (train.steps > 0 && place_.step >= train.steps) ended.emplace_back("train.steps");
    display_.print(
        fmt::format("nothing is left to do: {} steps are done, of {} epochs of {} steps{}; a larger {} goes on",
                    place_.step, train.epochs, steps_per_epoch_,
                    train.steps > 0 ? fmt::format(", {} steps at most (train.steps)", train.steps) : "",
                    fmt::join(ended, " with a larger ")));
    return 0;
  }
  folder_ = folder;
  metrics_ = std::make_unique<MetricsLog>(folder, place_);
  if (place_.step > 0 && measures_as_recorded())  // the next measurement may come after the end
    if (const std::optional<double> before = metrics_->last("measuring")) measured_before_ = {*before};
  folder_->save_configuration(to_yaml(configuration_));
  folder_->save_plan(configuration_.memory.plan ? to_json(*configuration_.memory.plan) : std::string());
  folder_->remove_summary();
  announce();
  ledger(device_of(configuration_)).reset_peak();
  bool evaluated = false;  // all that is due
  {
    Loader loader(batches_of(configuration_, training_images_, Split::train), loader_options());
    while ((evaluated = evaluate_if_due()) && !at_end() && InterruptGuard::signal() == 0) {
      take_step(loader);
      const std::int64_t every = configuration_.output.save_every_steps;
      if (every > 0 && place_.step % every == 0 && !epoch_over() && !at_end()) save(false);
    }
  }
  save(false);
  summary_ = summarize();
  const int signal = InterruptGuard::signal();
  const bool stopped = signal != 0 && !(at_end() && evaluated);
  if (stopped) summary_["stopped"] = true;
  write_file_atomically(folder_->summary(), summary_.dump(2) + "\n");
  if (stopped) {
    display_.print(fmt::format("stopped by a signal after step {}; go on with --resume {}", place_.step,
                               folder_->path().string()));
    return signal;
  }
  return 0;
}

void Trainer::announce() {
  const Configuration::Train& train = configuration_.train;
  display_.print(fmt::format("{}: {} parameters, {} trained; {} on {}, {} threads, memory policy {}",
                             configuration_.model.name, training_.model().parameter_count(),
                             training_.trainable_count(), train.precision, train.device, train.threads,
                             training_.policy().name()));
  if (configuration_.memory.plan) display_.print(configuration_.memory.plan->text);
  display_.print(
      fmt::format("{}: {} images to train on, {} to evaluate on; {} steps of {} images an epoch; run folder {}",
                  configuration_.data.name, training_images_->size(), validation_images_->size(), steps_per_epoch_,
                  train.batch_size, folder_->path().string()));
  if (!training_.freeze_matches().empty()) {
    std::string text = configuration_.freeze.train.empty() ? "frozen:\n" : "trained, and nothing else:\n";
    for (const FreezeMatch& match : training_.freeze_matches()) text += describe(match);
    text.pop_back();
    display_.print(text);
  }
  const bool all_trained = training_.trainable_count() == training_.model().parameter_count();
  if (!all_trained && configuration_.model.from.empty() && place_.step == 0)
    fmt::print(stderr, "lacuna: warning: what is frozen has random weights, since model.from names none\n");
  if (const LoadedWeights& loaded = training_.loaded_weights(); loaded.new_head) {
    const Model& model = training_.model();
    display_.print(loaded.file_classes > 0
                       ? fmt::format("the classifier {} starts anew: {} classes in {}, {} now", model.heads().front(),
                                     loaded.file_classes, configuration_.model.from, model.num_classes())
                       : fmt::format("the classifier {} starts anew: {} has none", model.heads().front(),
                                     configuration_.model.from));
  }
  if (place_.step > 0) display_.print(fmt::format("going on after step {}", place_.step));
  if (started_anew_ > 0)
    display_.print(fmt::format("{} parameters were frozen before: their optimizer state starts anew", started_anew_));
}

LoaderOptions Trainer::loader_options() const {
  return {.first_epoch = place_.epochs_evaluated,
          .first_sample = place_.samples,
          .workers = static_cast<int>(configuration_.data.workers)};
}

void Trainer::take_step(Loader& loader) {
  const Clock::time_point start = Clock::now();
  const double learning_rate = schedule_(scheduled_step());
  std::vector<Batch> batch = split_batch(*loader.next(), configuration_.train.accumulate);
  const StepOutcome outcome = training_.step(std::move(batch), place_.step, learning_rate);
  if (!outcome.finite()) report_nonfinite(outcome);
  ++place_.step;
  place_.loss_sum += outcome.loss * static_cast<double>(outcome.totals.samples);
  place_.correct += correct_of(outcome.totals);
  place_.samples += outcome.totals.samples;
  if (outcome.saved_bytes > saved_bytes_) {
    saved_bytes_ = outcome.saved_bytes;
    saved_by_path_ = outcome.saved_by_path;
  }
  note_step(outcome, learning_rate, seconds_since(start));
}

void Trainer::note_step(const StepOutcome& outcome, double learning_rate, double seconds) {
  const std::vector<double>& measuring = outcome.measuring_seconds;
  step_seconds_.push_back(seconds - std::accumulate(measuring.begin(), measuring.end(), 0.0));
  measuring_seconds_.insert(measuring_seconds_.end(), measuring.begin(), measuring.end());
  const std::int64_t epoch = place_.epochs_evaluated + 1;
  const Ledger& account = ledger(device_of(configuration_));
  const auto samples = static_cast<double>(outcome.totals.samples);
  nlohmann::ordered_json line{
      {"step", place_.step},   {"epoch", epoch},
      {"loss", outcome.loss},  {"accuracy", static_cast<double>(correct_of(outcome.totals)) / samples},
      {"lr", learning_rate},   {"gradient_norm", outcome.gradient_norm},
      {"seconds", seconds},    {"memory", account.total()},
      {"peak", account.peak()}};
  if (!measuring.empty()) line["measuring"] = measuring.back();
  metrics_->write(line);
  constexpr std::ptrdiff_t window = 10;  // steps over which the rate is averaged
  const auto first = step_seconds_.end() - std::min(window, std::ssize(step_seconds_));
  const double recent =
      std::accumulate(first, step_seconds_.end(), 0.0) / static_cast<double>(step_seconds_.end() - first) +
      amortized(measurements().empty() ? 0 : measurements().back(), training_.policy(),
                configuration_.train.accumulate);
  display_.update({.epoch = epoch,
                   .epochs = configuration_.train.epochs,
                   .step = place_.samples / configuration_.train.batch_size,
                   .steps = steps_per_epoch_,
                   .loss = place_.loss_sum / static_cast<double>(place_.samples),
                   .accuracy = static_cast<double>(place_.correct) / static_cast<double>(place_.samples),
                   .learning_rate = learning_rate,
                   .samples_per_second = samples / recent,
                   .memory = account.total(),
                   .peak = account.peak()});
}

bool Trainer::evaluate_if_due() {
  if (!epoch_over() && (!at_end() || place_.samples == 0)) return true;
  const Clock::time_point start = Clock::now();
  const std::optional<Evaluation> evaluation = [&] {
    const WeightAverage::Exchange exchange(training_.average());
    return evaluate(training_.model(), training_.task(), validation_images_, configuration_);
  }();
  if (!evaluation) return false;
  if (!std::isfinite(evaluation->loss))
    fail("after step {} the validation loss is {}, and no further checkpoint was written. {}", place_.step,
         without_sign_of_nan(evaluation->loss), advice);
  const auto samples = static_cast<double>(place_.samples);
  const double train_loss = place_.loss_sum / samples, accuracy = static_cast<double>(place_.correct) / samples;
  metrics_->write({{"step", place_.step},
                   {"epoch", whole_epochs()},
                   {"train_loss", train_loss},
                   {"train_accuracy", accuracy},
                   {"val_loss", evaluation->loss},
                   {"val_accuracy", evaluation->accuracy},
                   {"seconds", seconds_since(start)}});
  display_.print(fmt::format(
      "epoch {}/{}: train loss {:.4f}, accuracy {:.2f} %; validation loss {:.4f}, accuracy {:.2f} %{}",
      place_.epochs_evaluated + 1, configuration_.train.epochs, train_loss, 100 * accuracy, evaluation->loss,
      100 * evaluation->accuracy, training_.average() != nullptr ? " (average of the weights)" : ""));
  if (!epoch_over()) {
    // The place stays that of a run which goes on from here.
    final_evaluation_ = evaluation;
    return true;
  }
  const bool is_best = !place_.best || evaluation->accuracy > place_.best->accuracy;
  place_.epochs_evaluated = whole_epochs();
  place_.train_loss = train_loss;
  place_.last = evaluation;
  if (is_best) place_.best = evaluation;
  place_.loss_sum = 0;
  place_.correct = place_.samples = 0;  // the next epoch is under way
  const std::int64_t every = configuration_.output.save_every;
  if (at_end() || is_best || (every > 0 && whole_epochs() % every == 0)) save(is_best);
  return true;
}

void Trainer::save(bool is_best) {
  const std::pair here{place_.step, place_.epochs_evaluated};
  if (saved_ == here) return;
  for (const Parameter* parameter : training_.model().parameters())
    if (!is_finite(parameter->tensor()))
      fail("after step {} {} holds values that are not finite; nothing was saved. {}", place_.step, parameter->path(),
           advice);
  metrics_->sync();
  // Before the checkpoint: whoever goes on from it may have no step left to take.
  if (!step_seconds_.empty())
    write_file_atomically(folder_->measured(),
                          nlohmann::ordered_json{{"steps", place_.step}, {"figures", measured()}}.dump(2) + "\n");
  const bool only_place = saved_ && saved_->first == place_.step;
  folder_->save(state(), place_, only_place, is_best, configuration_.output.keep);
  saved_ = here;
}

void Trainer::report_nonfinite(const StepOutcome& outcome) {
  const std::string what =
      std::isfinite(outcome.loss)
          ? fmt::format("the loss is {}, but the gradient of {} is not finite", outcome.loss, outcome.nonfinite)
          : fmt::format("the loss is {}", without_sign_of_nan(outcome.loss));
  for (const Parameter* parameter : training_.model().parameters())
    if (!is_finite(parameter->tensor()))
      fail("step {}: {}, because {} holds values that are not finite. {}", place_.step + 1, what, parameter->path(),
           advice);
  if (outcome.updated)  // with other weights the step would find something else
    fail(
        "step {}: {}. Parameters behind it in the model had been updated in backward by then; nothing of that was "
        "saved. Without optimizer.in_backward the op is named where values first were not finite. {}",
        place_.step + 1, what, advice);
  NonFiniteSearch search;
  LoaderOptions one_batch = loader_options();
  one_batch.depth = 1;
  Loader loader(batches_of(configuration_, training_images_, Split::train), one_batch);
  std::vector<Batch> batch = split_batch(*loader.next(), configuration_.train.accumulate);
  training_.step(std::move(batch), place_.step, 0, &search);
  fail("step {}: {}. {}\n{}", place_.step + 1, what, search.describe(), advice);
}

std::optional<nlohmann::ordered_json> Trainer::noted_figures() const {
  using nlohmann::ordered_json;
  std::ifstream stream(folder_->measured());
  const ordered_json noted = ordered_json::parse(stream, nullptr, false);
  if (!noted.is_object() || noted.value("steps", ordered_json()) != place_.step) return std::nullopt;
  const ordered_json figures = noted.value("figures", ordered_json());
  return figures.is_object() ? std::optional(figures) : std::nullopt;
}

nlohmann::ordered_json Trainer::measured() const {
  if (step_seconds_.empty())
    if (const auto before = noted_figures()) return *before;
  const Ledger& account = ledger(device_of(configuration_));
  Measurement measured = describe(configuration_, training_);
  read_account(account, saved_bytes_, measured);
  measured.saved_by_path = saved_by_path_;
  measured.process_peak = process_peak();
  read_times(step_seconds_, measurements(), training_.policy(), configuration_.train.accumulate, measured);
  nlohmann::ordered_json json = to_json(measured);
  if (step_seconds_.empty()) {  // nobody knows what one saves
    json["memory"]["saved"] = nullptr;
    json["process_peak"] = measured.process_peak;
    json["step_seconds"] = nullptr;
    json["saved_by_path"] = nlohmann::ordered_json::object();
  }
  constexpr std::size_t telling = 3;  // steps: the median of fewer has the first one in it, which warms up as well
  if (step_seconds_.size() < telling) json["samples_per_second"] = nullptr;
  return json;
}

nlohmann::ordered_json Trainer::summarize() const {
  nlohmann::ordered_json json = measured();
  const std::optional<Evaluation>& evaluation = final_evaluation_ ? final_evaluation_ : place_.last;
  if (place_.step == 0)
    json["train_loss"] = nullptr;
  else
    json["train_loss"] = place_.samples > 0 ? place_.loss_sum / static_cast<double>(place_.samples) : place_.train_loss;
  json["val_loss"] = evaluation ? nlohmann::ordered_json(evaluation->loss) : nullptr;
  json["val_accuracy"] = evaluation ? nlohmann::ordered_json(evaluation->accuracy) : nullptr;
  json["epochs"] = whole_epochs();
  json["steps"] = place_.step;
  return json;
}

}  // namespace lacuna::apps
