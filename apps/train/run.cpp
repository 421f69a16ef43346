#include "apps/train/run.h"
#include "autograd/policies/adaptive.h"

#include "apps/config/model_folder.h"
#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/config/yaml.h"
#include "apps/output/host.h"
#include "apps/output/output.h"
#include "apps/train/announcement.h"
#include "apps/train/damaged_files.h"
#include "apps/train/fit.h"
#include "apps/train/freeze_table.h"
#include "apps/train/held_out.h"
#include "apps/train/interrupt.h"
#include "apps/train/machine_costs.h"
#include "apps/train/nonfinite.h"
#include "apps/train/timeline.h"
#include "core/collectives.h"
#include "core/file.h"
#include "core/finite.h"
#include "data/sample.h"
#include "nn/weight_formats.h"
#include "ops/cuda_libraries.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include <xxhash.h>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view advice = "A lower optimizer.lr, a longer warm-up or train.clip_norm may help.";

/// A division of zero by zero gives -nan here, which tells no more.
double without_sign_of_nan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

/// Empty where the totals have none of the metric's numbers.
std::string shown(const Metric& metric, const TaskTotals& totals) {
  return totals.has(metric) ? metric_text(metric.name, totals.value(metric)) : std::string();
}

/// Refused before anything is built where it does not fit. A run that goes on has its weights in a checkpoint.
Setup make_training(std::unique_ptr<Setup> planned, const Dataset& samples, Experiment& experiment,
                    const std::optional<fs::path>& checkpoint, Communicator& ranks, Foreseen& foreseen) {
  count_class_weights(samples, experiment);
  // `resume` reads the weights, but features follow from the frozen ones.
  if (checkpoint && !experiment.adapter.used() && !trains_on_features(experiment)) experiment.weights.clear();
  const Device device = existing_device(experiment);
  require_fit(*planned, experiment, device, true);
  if (ranks.rank() == 0) {
    foreseen.timeline = record_timeline(*planned, experiment, machine_costs()).dump();
    foreseen.frozen = to_text(freeze_table(*planned, experiment));
  }
  planned.reset();
  return Setup(experiment, device, ranks);
}

[[noreturn]] void reject_damaged(const DamagedSample& damaged, const std::string& remedy) {
  reject("{}\nRepair or remove the file, or pass over damaged ones with data.broken=skip{}{}", damaged.what(),
         remedy.empty() ? "" : ": ", remedy);
}

/// `train_` or `val_`, or nothing for a step.
void add_metrics(nlohmann::ordered_json& json, const std::string& prefix,
                 const std::vector<std::pair<std::string, double>>& values) {
  for (const auto& [name, value] : values) json[prefix + name] = value;
}

std::vector<std::pair<std::string, double>> values_of(const Evaluation& evaluation, const Task& task) {
  std::vector<std::pair<std::string, double>> values;
  for (const Metric& metric : task.metrics())
    if (const auto found = evaluation.metrics.find(metric.name); found != evaluation.metrics.end())
      values.emplace_back(*found);
  return values;
}

/// The learning rates of a probe's heads.
std::string task_rates(const Experiment& c) {
  std::vector<double> rates;
  for (const Tree& rate : c.task.options.at("rates").items) rates.push_back(number_in(rate).value());
  return fmt::format("{}", fmt::join(rates, ", "));
}

/// Which weights are in few bits, by a hash of their names: the rules that say so may be spelled in several ways.
/// Empty: none is.
std::string types_of_weights(const Model& model) {
  std::map<std::string, std::set<std::string_view>> names;
  for (const Parameter* const parameter : model.parameters())
    if (parameter->tensor().is_coded() && !parameter->trainable())
      names[std::string(type_name(parameter->tensor()))].insert(parameter->path());
  std::vector<std::string> types;
  for (const auto& [type, of_type] : names) {
    const std::string all = fmt::format("{}", fmt::join(of_type, "\n"));
    types.push_back(fmt::format("{} tensors in {} ({:016x})", of_type.size(), type, XXH64(all.data(), all.size(), 0)));
  }
  return fmt::format("{}", fmt::join(types, ", "));
}

TrainerOptions options_of(const Experiment& c, const Dataset& training_samples, const Setup& setup) {
  const std::int64_t steps_per_epoch = training_samples.size() / c.train.batch_size;
  TrainerOptions options{
      .epochs = c.train.epochs,
      .steps = c.train.steps,
      .evaluate_every = c.train.eval_every_steps,
      .accumulate = c.train.accumulate,
      .workers = static_cast<int>(c.data.workers),
      .learning_rate = make_schedule(
          c.schedule.name, c.schedule.options,
          {.lr = c.optimizer.lr, .total_steps = c.train.epochs * steps_per_epoch, .steps_per_epoch = steps_per_epoch}),
      .step = setup.step_options(),
      .best_by = c.train.best_by,
      .patience = c.train.patience,
      .identity = {{"train.seed", std::to_string(c.train.seed)},
                   {"task.name", c.task.name},
                   {"data.name", c.data.name},
                   {"data.seed", std::to_string(c.data.source.seed)},
                   {"data.train_size", std::to_string(training_samples.size())}}};
  const DatasetInfo& info = training_samples.info();  // classes that folders are named after may change
  if (find_field(info.fields, FieldKind::image_file) != nullptr)
    options.identity["classes"] = fmt::format("{}", fmt::join(info.classes, ", "));
  if (const auto& adaptation = setup.model().adaptation())
    options.identity["weights of model.from"] = adaptation->base_hash;
  options.recorded[weight_types_key] = fmt::format("{}", fmt::join(c.freeze.weights, " "));
  if (const std::string types = types_of_weights(setup.classifier()); !types.empty())
    options.identity["types of frozen weights (freeze.weights)"] = types;
  if (c.train.weights != "f32") options.identity["train.weights"] = c.train.weights;
  if (trains_on_features(c)) options.identity["task.rates"] = task_rates(c);
  return options;
}

}  // namespace

Run::Run(const Experiment& experiment, std::unique_ptr<Setup> planned, const std::optional<fs::path>& checkpoint,
         std::FILE* stream, Communicator& ranks)
    : ranks_(ranks),
      experiment_(experiment),
      threads_(static_cast<int>(experiment.train.threads)),
      display_(stream),
      training_samples_(open_dataset(experiment.data.name, dataset_options(experiment, Split::train))),
      validation_samples_(open_dataset(experiment.data.name, dataset_options(experiment, Split::validation))),
      setup_(make_training(std::move(planned), *training_samples_, experiment_, checkpoint, ranks, foreseen_)),
      features_(setup_.heads() == nullptr
                    ? std::nullopt
                    : std::optional<FeatureCache>(std::in_place, setup_, training_samples_, validation_samples_)),
      trainer_(setup_.state(), setup_.task(), batches(Split::train), batches(Split::validation),
               options_of(experiment, *training_samples_, setup_)),
      texts_beside_weights_(files_beside_weights(setup_.classifier(), describe_folder(experiment))) {}

Batches Run::batches(Split split) const {
  if (features_) return batches_of_ready(experiment_, features_->dataset(split), split);
  return batches_of(experiment_, split == Split::train ? training_samples_ : validation_samples_, split);
}

void Run::compute_features() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  Clock::time_point said = start;
  const auto seconds_since = [](Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  };
  const std::int64_t all = features_->samples();
  display_.print(fmt::format("the features of {} samples are computed once, without augmentation, and held in {}", all,
                             format_bytes(features_->bytes())));
  const auto go_on = [&](std::int64_t done) {
    constexpr double often = 30;  // seconds
    if (seconds_since(said) >= often) {
      said = Clock::now();
      display_.print(fmt::format("features of {} of {} samples, {:.1f} samples/s", done, all,
                                 static_cast<double>(done) / seconds_since(start)));
    }
    return InterruptGuard::signal() == 0;
  };
  if (features_->compute(experiment_, setup_.classifier(), go_on))
    display_.print(fmt::format("features computed in {}", clock_time(seconds_since(start))));
}

bool Run::measures_as_recorded() const {
  if (adaptive_of(setup_.policy()) == nullptr) return false;
  try {
    Problems none;
    const Tree recorded = read_yaml(folder_->configuration()), now = parse_yaml(to_yaml(experiment_), {}, none);
    const auto same = [&](std::string_view section, std::string_view key) {
      const Tree *const then = value_of(recorded, section, key), *const here = value_of(now, section, key);
      return then != nullptr && here != nullptr && *then == *here;
    };
    const Fields& options = memory_policies().get(experiment_.memory.policy).options.fields();
    return same("memory", "policy") && same("train", "threads") && same("train", "batch_size") &&
           same("train", "accumulate") &&
           std::ranges::all_of(options, [&](const lacuna::Field& option) { return same("memory", option.name); });
  } catch (const Error&) {  // -c stands for a record that is gone or damaged, and it is written anew
    return false;
  }
}

std::int64_t Run::steps_of_run() const {
  const Configuration::Train& train = experiment_.train;
  const Progress& progress = trainer_.progress();
  const std::int64_t in_epoch = progress.totals.samples / train.batch_size;
  const std::int64_t left = (train.epochs - progress.epochs_evaluated) * trainer_.steps_per_epoch() - in_epoch;
  const std::int64_t all = progress.step + left;
  return train.steps > 0 ? std::min(train.steps, all) : all;
}

void Run::resume(const RunFolder& folder, const fs::path& checkpoint) {
  try {
    started_anew_ = trainer_.resume(checkpoint);
  } catch (const Error& error) {
    if (!is_damaged(checkpoint)) throw;  // another model, another optimizer, another version
    const std::optional<fs::path> older = folder.whole_before(checkpoint);
    reject("{}\n{}", error.what(),
           older ? fmt::format("The checkpoint before it is whole: go on from there with --resume {}", older->string())
                 : "No checkpoint before it is whole: begin anew with -c CONFIG --overwrite");
  }
  const Progress& progress = trainer_.progress();
  ranks_.barrier();  // all ranks have read the files that move now
  if (is_writer()) folder.go_back_to(checkpoint, progress);
  saved_ = {progress.step, progress.evaluated};
}

std::optional<nlohmann::ordered_json> Run::finished(const RunFolder& folder) const {
  using nlohmann::ordered_json;
  const std::int64_t step = trainer_.progress().step;
  if (step == 0 || trainer_.epoch_over() || !trainer_.at_end()) return std::nullopt;
  std::ifstream metrics(folder.path() / "metrics.jsonl");
  std::string last;
  for (std::string line; std::getline(metrics, line);) last = std::move(line);
  const ordered_json noted = ordered_json::parse(last, nullptr, false);
  // A signal may have come before the last evaluation.
  if (!noted.is_object() || !noted.contains("val_loss") || noted.value("step", ordered_json()) != step)
    return std::nullopt;
  std::ifstream stream(folder.summary());
  ordered_json summary = ordered_json::parse(stream, nullptr, false);
  if (!summary.is_object() || summary.contains("stopped") || summary.value("steps", ordered_json()) != step)
    return std::nullopt;
  return summary;
}

int Run::run_beside() {
  if (largest_of_ranks(ranks_, 0) > 0) return 0;  // it was finished before
  return train() ? 0 : static_cast<int>(largest_of_ranks(ranks_, InterruptGuard::signal()));
}

int Run::run(const RunFolder& folder) {
  if (command_host() != nullptr) command_host()->begin(folder.path());
  auto before = finished(folder);
  if (largest_of_ranks(ranks_, before ? 1 : 0) > 0) {
    summary_ = std::move(*before);
    const Configuration::Train& train = experiment_.train;
    std::vector<std::string_view> ended;  // what ended it
    if (trainer_.whole_epochs() >= train.epochs) ended.emplace_back("train.epochs");
    if (train.steps > 0 && trainer_.progress().step >= train.steps) ended.emplace_back("train.steps");
    if (trainer_.out_of_patience()) ended.emplace_back("train.patience");
    display_.print(
        fmt::format("nothing to do: the run is complete ({} steps; {} epochs of {} steps{}). A larger {} continues it",
                    trainer_.progress().step, train.epochs, trainer_.steps_per_epoch(),
                    train.steps > 0 ? fmt::format(", {} steps at most (train.steps)", train.steps) : "",
                    fmt::join(ended, " with a larger ")));
    return 0;
  }
  folder_ = folder;
  metrics_ = std::make_unique<MetricsLog>(folder, trainer_.progress());
  if (experiment_.output.tensorboard) events_ = std::make_unique<EventLog>(folder.path());
  if (trainer_.progress().step > 0 && measures_as_recorded())  // the next measurement may come after the end
    if (const std::optional<double> last = metrics_->last("measuring")) figures_.set_calibration_before(*last);
  folder_->save_configuration(to_yaml(with_absolute_paths(experiment_)));
  save_held_out(folder_->path(), experiment_, training_samples_->info());
  folder_->save_plan(experiment_.plan ? to_json(*experiment_.plan) : std::string());
  folder_->save_timeline(foreseen_.timeline + "\n");
  folder_->remove_summary();
  record_ = std::make_unique<RunRecord>(folder_->record(), threads(), trainer_.progress().step);
  try {
    return train_and_summarize();
  } catch (...) {
    try {
      record_->update(trainer_.progress().step, "failed");
    } catch (const Error&) {  // the disk is full, say, which the error in hand tells
    }
    throw;
  }
}

bool Run::train() {
  ledger(device_of(experiment_)).reset_peak();
  if (features_) compute_features();
  const TrainerEvents events{
      .before_step = [this] { figures_.step_begins(); },
      .hooks = figures_.step_hooks(),
      .stop = [] { return InterruptGuard::signal() != 0; },
      .nonfinite = [this](const StepResult& result) { report_nonfinite(result); },
      .after_step = [this](const StepResult& result, double rate, double seconds) { note_step(result, rate, seconds); },
      .needs_state =
          [every = experiment_.output.save_every_steps](std::int64_t steps) { return every > 0 && steps % every == 0; },
      .evaluating = [this](std::int64_t samples, std::int64_t of) { show_evaluation(samples, of); },
      .after_epoch = [this](const EpochResult& epoch) { note_epoch(epoch); }};
  bool reached_end = false;
  try {
    reached_end = trainer_.run(events);
  } catch (const DamagedSample& damaged) {
    if (ranks_.size() > 1 || trainer_.progress().step == 0) reject_damaged(damaged, "");
    save(false);  // the step before it is whole
    reject_damaged(damaged, fmt::format("`lacuna train --resume {} data.broken=skip` goes on after step {}",
                                        shell_word(folder_->path().string()), trainer_.progress().step));
  }
  save(false);
  return reached_end;
}

int Run::train_and_summarize() {
  announce();
  const bool reached_end = train();
  const int signal = reached_end ? 0 : static_cast<int>(largest_of_ranks(ranks_, InterruptGuard::signal()));
  const bool stopped = signal != 0;
  record_->update(trainer_.progress().step, stopped ? "stopped" : "finished");
  summary_ = summarize();
  if (stopped) summary_["stopped"] = true;
  DamagedInRun damaged;
  if (experiment_.data.broken == "skip") {
    damaged = damaged_in_run(folder_->path() / "metrics.jsonl");
    summary_["damaged_files"] = damaged.files;
  }
  write_file_atomically(folder_->summary(), summary_.dump(2) + "\n");
  if (damaged.files > 0)
    print_error(fmt::format("lacuna: warning: {} damaged file{} (data.broken: skip):{}\n", damaged.files,
                            damaged.files == 1 ? "" : "s", damaged.text));
  const std::string run = folder_->path().string();
  if (stopped) {
    display_.print(fmt::format("stopped after step {}; `lacuna train --resume {}` continues", trainer_.progress().step,
                               shell_word(run)));
    return signal;
  }
  display_.print(closing_line());
  return 0;
}

std::string Run::closing_line() const {
  const BestBy& by = trainer_.best_by();
  const std::optional<Evaluation>& best = trainer_.progress().best;
  std::error_code ignored;
  const fs::path run = folder_->path(), link = run / "best";
  std::string text = "done: ";
  if (trainer_.out_of_patience())
    text += fmt::format("stopped early after {} epochs without a better {} (train.patience); ",
                        trainer_.progress().epochs_evaluated - trainer_.progress().best_epoch, by.name);
  if (best && !std::isnan(by.value(*best)))
    text += fmt::format("best {}, weights in {}; ", metric_text(by.name, by.value(*best)),
                        (fs::exists(link, ignored) ? link : folder_->best()).string());
  return text + fmt::format("{}, peak {}; `lacuna report {}` draws it", clock_time(record_->seconds()),
                            format_bytes(summary_["memory"]["peak"].get<std::int64_t>()), shell_word(run.string()));
}

void Run::announce() {
  const Configuration::Train& train = experiment_.train;
  display_.print(fmt::format("model {}: {} parameters, {} of them trained; {} on {}, {} threads; memory policy {}",
                             experiment_.model.name, setup_.parameter_count(), setup_.trainable_count(),
                             train.precision, train.device, train.threads, setup_.policy().name()));
  if (experiment_.plan) display_.print(experiment_.plan->text);
  display_.print(
      fmt::format("data {}: {} training samples, {} to evaluate on; an epoch has {} steps of {} samples; run folder {}",
                  experiment_.data.name, training_samples_->size(), validation_samples_->size(),
                  trainer_.steps_per_epoch(), train.batch_size, folder_->path().string()));
  for (const std::string& line :
       announce_samples(experiment_, *training_samples_, *validation_samples_, trainer_.steps_per_epoch()))
    display_.print(line);
  if (const std::int64_t steps = steps_of_run(), of_epoch = trainer_.steps_per_epoch(); train.steps > steps)
    print_error(fmt::format(
        "lacuna: warning: train.steps is {}, but the run ends after {} steps, by train.epochs={}; "
        "train.epochs={} reaches step {}\n",
        train.steps, steps, train.epochs, train.epochs + (train.steps - steps + of_epoch - 1) / of_epoch, train.steps));
  const bool resumed = trainer_.progress().step > 0;
  for (const std::string& line : announce_weights(experiment_, setup_, resumed, started_anew_, foreseen_.frozen))
    display_.print(line);
  if (resumed) display_.print(fmt::format("continuing after step {}", trainer_.progress().step));
}

void Run::note(const nlohmann::ordered_json& line) {
  if (!is_writer()) return;
  metrics_->write(line);
  if (events_) events_->write(line);
  if (command_host() != nullptr) command_host()->metrics(line);
}

void Run::note_step(const StepResult& result, double learning_rate, double seconds) {
  figures_.step_ended(result);
  figures_.add_time(seconds, result.calibration_seconds);
  step_seconds_ += seconds;
  if (figures_.steps() == 1) refuse_unmatched(setup_.policy());
  const Progress& progress = trainer_.progress();
  const std::int64_t epoch = progress.epochs_evaluated + 1;
  const std::int64_t held = figures_.held();
  nlohmann::ordered_json line{{"step", progress.step}, {"epoch", epoch}, {"loss", result.loss}};
  add_metrics(line, "", result.totals.values(setup_.task()));
  line["lr"] = learning_rate;
  if (!result.overflowed) line["gradient_norm"] = result.gradient_norm;
  if (experiment_.train.precision == "f16") line["loss_scale"] = result.loss_scale;
  line.update({{"samples", result.totals.samples}, {"seconds", seconds}, {"memory", held}, {"peak", figures_.peak()}});
  if (result.calibration_seconds > 0) {
    line["measuring"] = result.calibration_seconds;
    note_calibration(line);
  }
  for (const std::string& note : new_library_notes()) print_error(fmt::format("lacuna: note: {}\n", note));
  if (!result.not_captured.empty())
    print_error(fmt::format("lacuna: note: steps are not captured (train.graph): {}\n", result.not_captured));
  if (!result.replaced.empty()) {
    line["replaced"] = to_json(result.replaced);
    if (const DamagedFile& first = result.replaced.front(); !std::exchange(said_replaced_, true))
      display_.print(
          fmt::format("data.broken: {}: {}; {} takes its place. metrics.jsonl names each one, and the end of "
                      "the run lists them",
                      first.file, first.why, first.instead));
  }
  note(line);
  const Metric& metric = setup_.task().best_metric();
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  display_.update({.epoch = epoch,
                   .epochs = experiment_.train.epochs,
                   .step = progress.totals.samples / experiment_.train.batch_size,
                   .steps = trainer_.steps_per_epoch(),
                   .loss = progress.totals.loss(),
                   .metric = shown(metric, progress.totals),
                   .learning_rate = learning_rate,
                   .samples_per_second = static_cast<double>(result.totals.samples) / figures_.recent_seconds(),
                   .memory = held,
                   .peak = figures_.peak(),
                   .elapsed = elapsed,
                   .remaining = seconds_left()});
  const std::int64_t every = experiment_.output.save_every_steps;
  if (every > 0 && progress.step % every == 0 && !trainer_.epoch_over() && !trainer_.at_end()) save(false);
}

double Run::seconds_left() const {
  const std::int64_t steps = steps_of_run() - trainer_.progress().step, of_epoch = trainer_.steps_per_epoch();
  const double step = step_seconds_ / static_cast<double>(figures_.steps());
  // Before the first evaluation: a forward pass takes about a third of a step.
  const double evaluation = evaluation_seconds_ > 0 ? evaluation_seconds_
                                                    : step / 3 * static_cast<double>(validation_samples_->size()) /
                                                          static_cast<double>(experiment_.train.batch_size);
  const std::int64_t every = experiment_.train.eval_every_steps,
                     evaluations = (steps + of_epoch - 1) / of_epoch + (every > 0 ? steps / every : 0);
  return step * static_cast<double>(steps) + evaluation * static_cast<double>(evaluations);
}

void Run::show_evaluation(std::int64_t samples, std::int64_t of) {
  const auto now = std::chrono::steady_clock::now();
  if (samples == 0) evaluation_started_ = now;
  display_.update(EvaluationLine{.epoch = trainer_.progress().epochs_evaluated + 1,
                                 .epochs = experiment_.train.epochs,
                                 .samples = samples,
                                 .of = of,
                                 .elapsed = std::chrono::duration<double>(now - evaluation_started_).count()});
}

void Run::note_calibration(nlohmann::ordered_json& line) {
  const double share = adaptive_of(setup_.policy())->variance_share();
  line["quantization_variance"] = share;
  line["tensors"] = setup_.policy().figures();
  constexpr double dominates = 0.5;
  if (share > dominates && !std::exchange(said_noisy_, true))
    print_error(fmt::format(
        "lacuna: warning: step {}: quantization adds a variance of {:.2f} times the squared gradient, so that most of "
        "a step may be noise; a higher memory.bits adds less\n",
        trainer_.progress().step, share));
}

void Run::note_epoch(const EpochResult& epoch) {
  const Task& task = setup_.task();
  const Progress& progress = trainer_.progress();
  const Metric& metric = task.best_metric();
  nlohmann::ordered_json line{{"step", progress.step}, {"epoch", epoch.epoch}};
  line["train_loss"] = epoch.train.loss();
  add_metrics(line, "train_", epoch.train.values(task));
  line["val_loss"] = epoch.validation.loss;
  add_metrics(line, "val_", values_of(epoch.validation, task));
  std::string averaged;
  if (const auto& without = epoch.without_average) {
    line["val_loss_without_average"] = without->loss;
    for (const auto& [name, value] : values_of(*without, task)) line["val_" + name + "_without_average"] = value;
    averaged = fmt::format(" (average of the weights; without it {:.4f}, {})", without->loss,
                           metric_text(metric.name, without->metrics.at(metric.name)));
  }
  if (const ProbeHeads* const heads = setup_.heads())
    averaged = fmt::format(" (head of rate {})", heads->rates()[heads->best(epoch.validation)]);
  line["seconds"] = evaluation_seconds_ = epoch.seconds;
  if (TensorFigures figures = setup_.policy().figures(); !figures.empty()) line["tensors"] = std::move(figures);
  if (!epoch.validation.left_out.empty()) line["val_left_out"] = to_json(epoch.validation.left_out);
  note(line);
  const std::string trained = shown(metric, epoch.train);
  display_.print(fmt::format("epoch {}/{}{}: train loss {:.4f}{}; validation loss {:.4f}, {}{}", epoch.epoch,
                             experiment_.train.epochs, epoch.whole ? "" : fmt::format(", after step {}", progress.step),
                             epoch.train.loss(), trained.empty() ? "" : ", " + trained, epoch.validation.loss,
                             metric_text(metric.name, epoch.validation.metrics.at(metric.name)), averaged));
  const std::int64_t every = experiment_.output.save_every;
  const bool is_due = epoch.whole && every > 0 && trainer_.whole_epochs() % every == 0;
  if (trainer_.at_end() || epoch.is_best || is_due) save(epoch.is_best);
}

void Run::save(bool is_best) {
  const Progress& progress = trainer_.progress();
  const std::pair here{progress.step, progress.evaluated};
  if (saved_ == here) return;
  for (const Parameter* parameter : setup_.model().parameters())
    if (!is_finite(parameter->tensor()))
      fail("after step {} {} holds values that are not finite; nothing was saved. {}", trainer_.progress().step,
           parameter->path(), advice);
  bool only_progress = saved_ && saved_->first == trainer_.progress().step;
  saved_ = here;
  if (!is_writer()) {
    if (!only_progress) write_checkpoint({}, setup_.state(), progress);
    return;
  }
  metrics_->sync();
  // Before the checkpoint: a resumed run may have no step left to measure.
  if (figures_.steps() > 0)
    write_file_atomically(
        folder_->measured(),
        nlohmann::ordered_json{{"steps", trainer_.progress().step}, {"figures", figures_.to_json({})}}.dump(2) + "\n");
  if (const ProbeHeads* const heads = setup_.heads()) {
    heads->copy_head(heads->best(progress.last), setup_.classifier());
    only_progress = false;  // an evaluation may have found another head the best
  }
  TrainedState state = setup_.state();
  state.texts = texts_beside_weights_;
  folder_->save(state, progress, only_progress, is_best, experiment_.output.keep);
  record_->update(progress.step);
}

void Run::report_nonfinite(const StepResult& outcome) {
  const std::string what =
      std::isfinite(outcome.loss)
          ? fmt::format("the loss is {}, but the gradient of {} is not finite", outcome.loss, outcome.nonfinite)
          : fmt::format("the loss is {}", without_sign_of_nan(outcome.loss));
  for (const Parameter* parameter : setup_.model().parameters())
    if (!is_finite(parameter->tensor()))
      fail("step {}: {}, because {} holds values that are not finite. {}", trainer_.progress().step + 1, what,
           parameter->path(), advice);
  if (outcome.updated)  // with other weights the step would find something else
    fail(
        "step {}: {}. Parameters behind it in the model had been updated in backward by then; nothing of that was "
        "saved. Without optimizer.in_backward the op is named where values first were not finite. {}",
        trainer_.progress().step + 1, what, advice);
  NonFiniteSearch search;
  trainer_.step(trainer_.next_batch(), trainer_.progress().step, 0, {.observer = &search});
  fail("step {}: {}. {}\n{}", trainer_.progress().step + 1, what, search.describe(), advice);
}

std::optional<nlohmann::ordered_json> Run::noted_figures() const {
  using nlohmann::ordered_json;
  std::ifstream stream(folder_->measured());
  const ordered_json noted = ordered_json::parse(stream, nullptr, false);
  if (!noted.is_object() || noted.value("steps", ordered_json()) != trainer_.progress().step) return std::nullopt;
  const ordered_json figures = noted.value("figures", ordered_json());
  return figures.is_object() ? std::optional(figures) : std::nullopt;
}

nlohmann::ordered_json Run::summarize() const {
  nlohmann::ordered_json json = figures_.to_json(noted_figures());
  const Progress& progress = trainer_.progress();
  const std::optional<Evaluation>& evaluation = progress.last;
  if (trainer_.progress().step == 0)
    json["train_loss"] = nullptr;
  else
    json["train_loss"] = progress.totals.samples > 0 ? progress.totals.loss() : progress.train_loss;
  json["val_loss"] = evaluation ? nlohmann::ordered_json(evaluation->loss) : nullptr;
  for (const Metric& metric : setup_.task().metrics())
    json["val_" + metric.name] = evaluation ? nlohmann::ordered_json(evaluation->metrics.at(metric.name)) : nullptr;
  if (const std::optional<Evaluation>& best = progress.best) {
    const BestBy& by = trainer_.best_by();
    if (const double value = by.value(*best); !std::isnan(value))
      json["best"] = {{"metric", by.name}, {"value", value}, {"higher_is_better", by.higher_is_better}};
  }
  json["epochs"] = trainer_.whole_epochs();
  json["stopped_early"] = trainer_.out_of_patience();
  json["steps"] = trainer_.progress().step;
  json["seconds"] = record_->seconds();
  return json;
}

}  // namespace lacuna::apps
