// lacuna eval: evaluates a checkpoint, or a folder with a model.
#include "apps/command.h"
#include "apps/commands/class_masks.h"
#include "apps/commands/found_boxes.h"
#include "apps/commands/opened_model.h"
#include "apps/commands/own_size.h"
#include "apps/config/assignment.h"
#include "apps/config/configuration_options.h"
#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/config/schema.h"
#include "apps/config/yaml.h"
#include "apps/output/host.h"
#include "apps/output/output.h"
#include "apps/output/picture.h"
#include "apps/train/crowding.h"
#include "apps/train/damaged_files.h"
#include "apps/train/fit.h"
#include "apps/train/held_out.h"
#include "apps/train/progress.h"
#include "apps/train/ranks.h"
#include "apps/train/statistics.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/system_memory.h"
#include "data/encoded_images.h"
#include "data/graphs/node_graph.h"
#include "data/text/labelled_text.h"
#include "ops/products/tf32.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace lacuna::apps {
namespace {

class Eval {
 public:
  explicit Eval(CLI::App& app) {
    app.add_option(
           "arguments", arguments_,
           "a run folder, whose best checkpoint is evaluated, one of its checkpoints (RUN/last), or a folder with "
           "a model and its config.json; then key=value overrides")
        ->type_name("[RUN | RUN/last | FOLDER] [key=value ...]");
    app.add_option("-c,--config", files_,
                   "configuration file, in the place of RUN; model.from names the weights; given again, a further one")
        ->type_name("CONFIG")
        ->option_text("CONFIG")
        ->allow_extra_args(false);
    app.add_option(
           "--rank-timeout", rank_timeout_,
           "seconds that ranks wait for one that lives, with several processes under mpirun or srun; then all end")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    auto* const windows = app.add_flag(
        "--windows", windows_,
        "segmentation: figures at the images' own sizes, with the model shown overlapping parts of an image");
    app.add_flag("--whole", whole_, "segmentation: the same, with the model shown the whole image at once")
        ->excludes(windows);
    report_.declare(app);
  }

  ExitCode operator()() const {
    return run_as_rank(rank_timeout_, [&](Communicator& ranks) {
      if (ranks.rank() > 0) silence_warnings();
      return run(ranks);
    });
  }

 private:
  ExitCode run(Communicator& ranks) const {
    std::vector<std::string> overrides = arguments_;
    std::vector<std::string> files = files_;
    if (files.empty() && !overrides.empty() && is_configuration_file(overrides.front())) {
      files = {overrides.front()};
      overrides.erase(overrides.begin());
    }
    std::optional<CheckpointPath> point;
    bool is_whole = false;
    if (files.empty() && !overrides.empty() && is_adapter_alone(overrides.front())) {
      const AdapterFolder adapter(expand_home(overrides.front()));
      overrides.front() = fmt::format("adapter.from={}", to_yaml(std::string_view(overrides.front())));
      overrides.insert(overrides.begin(), fmt::format("model.from={}", to_yaml(std::string_view(adapter.base()))));
    }
    const bool is_folder = files.empty() && !overrides.empty() && is_model_folder(overrides.front());
    if (is_folder) {
      overrides.front() = fmt::format("model.from={}", to_yaml(std::string_view(overrides.front())));
    } else if (files.empty() && !overrides.empty() && overrides.front().find('=') != std::string::npos &&
               !std::filesystem::exists(overrides.front())) {
      is_whole = true;  // the settings are all in the arguments
    } else if (files.empty()) {
      if (overrides.empty()) reject("expected a run folder, or -c CONFIG");
      point = checkpoint_path(overrides.front());
      overrides.erase(overrides.begin());
      files = {RunFolder::open(point->run).configuration().string()};
      for (const std::string& change : overrides)
        if (sets(change, "model", "from") && !has_adapter(*point))
          reject("{}: the weights are those of the run; expected -c {} to evaluate others", change, files.front());
    }
    if ((is_folder || is_whole) && std::ranges::none_of(overrides, names_data))
      reject("expected data to evaluate on: data.path=FOLDER, or data.name of a data set");
    const Evaluated of_checkpoint{.classes = point ? classes_of(*point) : std::vector<std::string>()};
    Experiment experiment = is_folder || is_whole
                                ? parse_configuration("", "", overrides, &of_checkpoint)
                                : read_configuration(files, overrides, std::make_shared<OpenedFiles>(), &of_checkpoint);
    refuse_changes_of_training(overrides);
    follow_samples(point, is_folder || is_whole, overrides, experiment, ranks);
    experiment.memory = {};  // nothing is saved for backward, and no budget of a step is asked for
    if (ranks.size() > 1) {  // each takes as many samples at once as one process does
      experiment.train.batch_size = experiment.train.batch_size / experiment.train.accumulate * ranks.size();
      experiment.train.accumulate = 1;
    }
    experiment = resolve(on_ranks(experiment, ranks));
    if (experiment.train.device == "meta")
      reject("train.device: nothing can be evaluated on meta, which holds no values");
    if (experiment.model.from.empty() && !point)
      reject("expected model.from, the weights to evaluate, or a run folder");

    const Device device = existing_device(experiment);
    const ThreadCountScope threads(static_cast<int>(experiment.train.threads));
    const Tf32Scope tf32(experiment.train.precision == "tf32");
    if (ranks.rank() == 0) warn_if_crowded();
    const std::shared_ptr<const Dataset> dataset =
        open_dataset(experiment.data.name, dataset_options(experiment, Split::validation));
    warn_of_other_statistics(experiment);
    require_fit_to_evaluate(experiment);
    const MadeModel made =
        point ? make_model_of_run(experiment, *point, device) : make_model(experiment, device, false);
    Model* const model = made.model.get();
    ledger(device).reset_peak();
    const auto start = std::chrono::steady_clock::now();
    const std::unique_ptr<Task> task = make_task(experiment, *model);
    const std::unique_ptr<Figures> figures = task->figures();
    task->fill(figures.get());
    ProgressDisplay display(report_.for_people() && ranks.rank() == 0 ? stderr : nullptr);
    const auto show = [&](std::int64_t samples) {
      stop_if_host_wants();
      display.update(EvaluationLine{.samples = samples, .of = dataset->size(), .elapsed = seconds_since(start)});
    };
    const auto at_each = [&](std::int64_t samples) {
      show(samples);
      return false;
    };
    const bool own_size = windows_ || whole_;
    if (own_size && find_field(task->targets(), FieldKind::mask) == nullptr)
      reject("--whole and --windows: expected a model of segmentation, got {}", experiment.model.name);
    const Evaluation evaluation =
        own_size ? evaluate_at_own_size(*model, *dataset, experiment.data.images,
                                        windows_ ? Showing::windows : whole_showing(experiment.data.images.crop_mode),
                                        *figures, show, ranks)
                 : *evaluate(*model, *task, batches_of(experiment, dataset, Split::validation),
                             static_cast<int>(experiment.data.workers), at_each, ranks);
    display.clear();
    if (figures && !own_size) figures->gather(ranks);
    const double seconds = seconds_since(start);
    const double rate = static_cast<double>(evaluation.samples) / seconds;
    if (!std::isfinite(evaluation.loss)) fail("{}: the loss is {}", made.file.string(), std::fabs(evaluation.loss));
    nlohmann::ordered_json json{{"model", experiment.model.name},
                                {"weights", made.file.string()},
                                {"device", experiment.train.device},
                                {"precision", experiment.train.precision},
                                {"batch_size", experiment.train.batch_size},
                                {"threads", experiment.train.threads},
                                {"parameters", model->parameter_count()},
                                {"samples", evaluation.samples}};
    std::string metrics;
    if (own_size) {
      json["shown"] = windows_ ? "windows" : "whole";
    } else {
      json["val_loss"] = evaluation.loss;
      metrics = fmt::format(", loss {:.4f}", evaluation.loss);
      for (const Metric& metric : task->metrics()) {
        const double value = evaluation.metrics.at(metric.name);
        json["val_" + metric.name] = value;
        metrics += ", " + metric_text(metric.name, value);
      }
    }
    if (ranks.rank() > 0) return 0;  // rank 0 tells
    std::vector<std::int64_t> evaluated = evaluated_samples(*dataset, evaluation.left_out);
    // A rank whose part of a batch was damaged as a whole tells nothing of it: which samples follow is not known then.
    if (ranks.size() > 1 && !evaluation.left_out.empty()) evaluated.clear();
    const auto origin = [&](std::int64_t sample) {
      if (const auto* const graph = dynamic_cast<const NodeGraphDataset*>(dataset.get())) return graph->origin(sample);
      if (figures->samples() != std::ssize(evaluated)) return fmt::format("sample {}", sample);
      const std::int64_t index = evaluated[static_cast<std::size_t>(sample)];
      if (const auto* const images = dynamic_cast<const EncodedImages*>(dataset.get())) return images->origin(index);
      if (const auto* const texts = dynamic_cast<const LabelledText*>(dataset.get())) return texts->origin(index);
      return fmt::format("sample {}", sample);
    };
    if (!evaluation.left_out.empty()) {
      json["left_out"] = to_json(evaluation.left_out);
      std::string list;
      for (const DamagedFile& one : evaluation.left_out) list += fmt::format("\n  {}: {}", one.file, one.why);
      print_error(fmt::format("lacuna: warning: {} of {} files are damaged and left out:{}\n",
                              evaluation.left_out.size(), dataset->size(), list));
    }
    const bool has_figures = figures && figures->samples() > 0;
    if (has_figures) {
      json[figures->key()] = figures->json(origin);
      if (point && overrides.empty() && !own_size)
        write_classes(*point, experiment, *model, *task, dataset, evaluated, *figures, json);
    }
    json["samples_per_second"] = rate;
    json["evaluation_peak"] = ledger(device).peak();
    json["process_peak"] = process_peak();
    json["notes"] = made.notes;
    for (const std::string& note : made.notes) print_error(fmt::format("lacuna: note: {}\n", note));
    report_.write(fmt::format("{} from {}: {} samples{}, {:.1f} samples/s\n", experiment.model.name, made.file.string(),
                              evaluation.samples, metrics, rate) +
                      (has_figures ? figures->text(origin) : std::string()),
                  json);
    return 0;
  }

  /// An evaluation of other files than the run's has nothing to hold out.
  static void follow_samples(const std::optional<CheckpointPath>& point, bool of_no_run,
                             const std::vector<std::string>& overrides, Experiment& experiment,
                             const Communicator& ranks) {
    const auto given = [&](std::string_view key) {
      return std::ranges::any_of(overrides, [&](const std::string& change) { return sets(change, "data", key); });
    };
    if (given("val_fraction")) return;
    if (of_no_run) experiment.data.source.hold_out = HoldOut::none;
    if (!point) return;
    const auto [note, warning] = follow_held_out(point->run, given("path"), experiment);
    if (!note.empty() && ranks.rank() == 0) print_error(fmt::format("lacuna: note: {}\n", note));
    if (!warning.empty() && ranks.rank() == 0) print_error(fmt::format("lacuna: warning: {}\n", warning));
  }

  static bool names_data(const std::string& change) {
    return sets(change, "data", "path") || sets(change, "data", "name");
  }

  /// Whether the checkpoint holds an adapter, whose base may have moved.
  static bool has_adapter(const CheckpointPath& point) {
    bool adapted = false;
    with_checkpoint(point, [&](const std::filesystem::path& checkpoint) { adapted = is_adapter_folder(checkpoint); });
    return adapted;
  }

  /// The classes of the checkpoint that is evaluated, as far as it names them.
  static std::vector<std::string> classes_of(const CheckpointPath& point) {
    std::vector<std::string> classes;
    with_checkpoint(point, [&](const std::filesystem::path& checkpoint) {
      if (const std::optional<ModelFolder> folder = read_model_folder(checkpoint)) classes = folder->labels;
    });
    return classes;
  }

  static double seconds_since(std::chrono::steady_clock::time_point then) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
  }

  /// The samples of a data set without those that are left out.
  static std::vector<std::int64_t> evaluated_samples(const Dataset& dataset, const std::vector<DamagedFile>& left_out) {
    std::vector<std::int64_t> samples;
    for (std::int64_t i = 0; i < dataset.size(); ++i)
      if (std::ranges::find(left_out, i, &DamagedFile::index) == left_out.end()) samples.push_back(i);
    return samples;
  }

  /// Writes the figures for the run's page, with pictures of the worst samples.
  static void write_classes(const CheckpointPath& point, Experiment experiment, Model& model, const Task& task,
                            const DatasetPtr& dataset, const std::vector<std::int64_t>& samples, const Figures& figures,
                            const nlohmann::ordered_json& evaluated) {
    nlohmann::ordered_json json{{"weights", evaluated["weights"]},
                                {"samples", evaluated["samples"]},
                                {figures.key(), evaluated[figures.key()]}};
    if (image_channels(dataset->info().fields) == 3 && figures.samples() == std::ssize(samples)) {
      experiment.train.device = "cpu";  // pixels as numbers
      experiment.train.batch_size = experiment.train.accumulate = 1;
      experiment.ranks = {};
      experiment.process = {};
      model.set_training(false);  // an evaluation leaves it as it was
      const Batches single = batches_of(experiment, dataset, Split::validation);
      const std::vector<std::int64_t> worst = figures.worst();
      Sample sample;
      for (std::size_t i = 0; i < worst.size(); ++i) {
        const Batch batch = single.read(0, samples[static_cast<std::size_t>(worst[i])], single.allocate(), sample);
        const Reduced picture = reduced(picture_of(batch[find_images(single.info().fields)->name], 0,
                                                   experiment.data.images.mean, experiment.data.images.deviation));
        nlohmann::ordered_json& one = json[figures.key()]["worst"][i];
        one["image"] = picture_address(picture.picture);
        if (const SampleField* const mask = find_field(single.info().fields, FieldKind::mask))
          add_masks(one, model, batch, *mask, dataset->info().classes, picture);
        if (find_field(single.info().fields, FieldKind::boxes) != nullptr)
          add_boxes(one, model, task, batch, dataset->info().classes, picture);
      }
    }
    try {
      write_file_atomically(point.run / "classes.json", json.dump() + "\n");
    } catch (const Error& error) {  // a run may be there to read only
      print_error(fmt::format("lacuna: note: `lacuna report` will not show the classes: {}\n", error.what()));
    }
  }

  /// Refuses overrides that an evaluation does not read.
  static void refuse_changes_of_training(const std::vector<std::string>& overrides) {
    for (const std::string& change : overrides) {
      Problems problems;
      const TreeEntry given = *parse_assignment(change, problems);  // read before
      const std::size_t dot = given.key.find('.');
      const std::string section = given.key.substr(0, dot);
      Names keys;
      if (dot != std::string::npos) keys.push_back(given.key.substr(dot + 1));
      for (const TreeEntry& entry : given.value.entries) keys.push_back(entry.key);
      if (keys.empty()) keys.emplace_back();  // a section without keys
      for (const std::string& key : keys)
        if (use_of(section, key) != Use::any)
          reject("{}: an evaluation does not use {}, which is for training alone", change,
                 key.empty() ? section : fmt::format("{}.{}", section, key));
    }
  }

  /// Whether `path` is a folder of PEFT, which names the model that it belongs to.
  static bool is_adapter_alone(const std::string& path) {
    std::error_code ignored;
    const std::filesystem::path folder = expand_home(path);
    return is_adapter_folder(folder) && !std::filesystem::exists(folder / "config.json", ignored) && !run_of(path);
  }

  /// Whether `path` is a folder with a model that is no part of a run.
  static bool is_model_folder(const std::string& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(expand_home(path) / "config.json", ignored) && !run_of(path);
  }

  static MadeModel make_model_of_run(const Experiment& experiment, const CheckpointPath& point, Device device) {
    MadeModel made;
    with_checkpoint(point, [&](const std::filesystem::path& checkpoint) {
      Experiment with_weights = experiment;
      take_weights_of(checkpoint, with_weights);
      made = make_model(with_weights, device, false);
      require_same_base(checkpoint, *made.model, experiment.freeze.weights);
      if (with_weights.adapter.used()) made.file = checkpoint;
    });
    return made;
  }

  std::vector<std::string> arguments_;
  std::vector<std::string> files_;
  double rank_timeout_ = 1800;
  bool windows_ = false, whole_ = false;
  Report report_;
};

const RegisterCommand eval(20, "eval", "evaluate a run, a checkpoint, or a folder with a model", declare<Eval>);

}  // namespace
}  // namespace lacuna::apps
