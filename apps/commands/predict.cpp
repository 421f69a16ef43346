// lacuna predict: what a trained model says about texts or images.
#include "apps/command.h"
#include "apps/commands/image_prediction.h"
#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/train/run_folder.h"
#include "apps/train/training.h"
#include "autograd/tape.h"
#include "data/text/text_dataset.h"
#include "data/text/tokenizer.h"
#include "models/checkpoint.h"
#include "models/folders/folder.h"
#include "models/io/adapter_folder.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Values of row `row` of logits [N, C].
std::vector<double> row_of(const Tensor& logits, std::int64_t row) {
  return logits.row_range(row, row + 1).to_vector();
}

std::vector<double> softmax(std::vector<double> logits) {
  const double highest = *std::ranges::max_element(logits);
  for (double& logit : logits) logit = std::exp(logit - highest);
  const double sum = std::accumulate(logits.begin(), logits.end(), 0.0);
  for (double& logit : logits) logit /= sum;
  return logits;
}

/// What the logits of one sample mean for the task.
ordered_json meaning_of(std::vector<double> logits, const std::string& task, const std::vector<std::string>& classes) {
  if (task == "regression")
    return {{"value", logits.size() == 1 ? ordered_json(logits.front()) : ordered_json(logits)}};
  const auto name = [&](std::size_t i) { return i < classes.size() ? classes[i] : std::to_string(i); };
  ordered_json probabilities = ordered_json::object(), labels = ordered_json::array();
  if (task == "multi_label") {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double probability = 1 / (1 + std::exp(-logits[i]));
      probabilities[name(i)] = probability;
      if (probability >= 0.5) labels.push_back(name(i));
    }
    return {{"labels", labels}, {"probabilities", probabilities}};
  }
  const auto best = static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
  const std::vector<double> shares = softmax(std::move(logits));
  for (std::size_t i = 0; i < shares.size(); ++i) probabilities[name(i)] = shares[i];
  return {{"label", name(best)}, {"probability", shares[best]}, {"probabilities", probabilities}};
}

/// An input and where it is from.
struct Input {
  std::string text, place;
};

/// A model, and how it takes texts.
struct Predictor {
  std::unique_ptr<Model> model{};
  std::unique_ptr<const InputReader> reader{};
  std::string task{};
  std::vector<std::string> classes{};
  std::size_t batch_size = 32;
};

class Predict {
 public:
  explicit Predict(CLI::App& app) {
    app.add_option("model", from_,
                   "a run, whose best checkpoint is taken, one of its checkpoints (RUN/last), or a folder with a model "
                   "and its tokenizer")
        ->type_name("RUN | RUN/last | FOLDER")
        ->required();
    app.add_option("input", texts_,
                   "images: files, folders, tar archives; or texts, without any the lines of standard input")
        ->type_name("IMAGES | TEXTS");
    app.add_option("--top", top_, "classes that are named for each image; 5 unless given")
        ->type_name("K")
        ->check(CLI::Range(1, 1'000'000));
    app.add_flag("--json", json_, "a line of JSON for each image; texts always have one");
    app.add_option("--input", input_, "a file with a text on each line; -: standard input")->type_name("FILE");
    app.add_flag("--pairs", pairs_, "each input is two texts with a tab between them");
    app.add_option("--max-length", max_length_,
                   "tokens of a text at most, the rest is cut off; 0: as many as the model takes")
        ->type_name("N")
        ->check(CLI::Range(0, 1 << 20));
    app.footer("Writes a line of JSON for each text: its label and probabilities, its value, or its embedding.");
  }

  ExitCode operator()() {
    require_existing(from_);
    if (predicts_images(from_)) {
      if (!input_.empty() || pairs_ || max_length_ > 0)
        reject("{}: is a model of images, and --input, --pairs and --max-length are for texts", from_);
      predict_images(from_, texts_, {.top = top_ > 0 ? top_ : 5, .json = json_});
      return 0;
    }
    if (top_ > 0) reject("{}: is a model of texts, and --top is for images", from_);
    if (!texts_.empty() && !input_.empty()) reject("expected texts or --input, got both");
    const Predictor predictor = find();
    predictor.model->set_training(false);
    std::vector<Input> batch;
    const auto run_batch = [&] {
      if (!batch.empty()) print(batch, predictor);
      batch.clear();
    };
    each_input([&](Input input) {
      batch.push_back(std::move(input));
      if (batch.size() == predictor.batch_size) run_batch();
    });
    run_batch();
    return 0;
  }

 private:
  Predictor find() const {
    const CheckpointPath point = checkpoint_path(from_);
    std::error_code ignored;
    if (!fs::is_regular_file(point.run / "config.yaml", ignored)) {
      if (std::optional<Predictor> found = of_folder(expand_home(from_))) return std::move(*found);
      reject(
          "{}: expected a run, one of its checkpoints, or a folder with a model of text (config.json, weights and "
          "tokenizer.json or vocab.txt)",
          from_);
    }
    const RunFolder run = RunFolder::open(point.run);
    const fs::path checkpoint = point.checkpoint.empty() ? run.best() : run.checkpoint(point.checkpoint);
    read_progress(checkpoint);  // refuses one whose files have changed
    const fs::path weights = is_adapter_folder(checkpoint) ? checkpoint : weights_path(checkpoint, "RUN");
    if (std::optional<Predictor> found = of_folder(weights)) return std::move(*found);
    return of_configuration(run, checkpoint);
  }

  /// Of a folder, or of weights in one, that says all; nothing where it lacks a configuration or a tokenizer.
  std::optional<Predictor> of_folder(const fs::path& path) const {
    const std::optional<ModelFolder> folder = read_model_folder(path);
    if (!folder) return {};
    const fs::path where = folder->config.parent_path();
    if (tokenizer_texts(where).empty()) return {};
    Predictor predictor{.classes = folder->labels};
    const Device device = available_device({});
    if (is_adapter_folder(path)) {
      predictor.model = make_adapted_model(path, *folder, DType::f32, device);
    } else {
      predictor.model = build_model(folder->model, folder->hyper_parameters, {.device = device, .training = false});
      const FolderWeights weights = open_weights(path, folder);
      load_weights(*predictor.model, weights.files, weights.options);
    }
    predictor.task = folder->problem == "multi_label_classification"                          ? "multi_label"
                     : folder->problem == "regression" || predictor.model->num_classes() == 1 ? "regression"
                                                                                              : "classification";
    const auto tokens = std::ranges::find(predictor.model->inputs(), "tokens", &SampleField::name);
    if (tokens == predictor.model->inputs().end()) return {};
    const std::int64_t longest = tokens->shape.front();
    if (max_length_ > longest)
      reject("--max-length: expected at most {}, as the model takes, got {}", longest, max_length_);
    predictor.reader = text_inputs({.max_length = std::max<std::int64_t>(3, max_length_ > 0 ? max_length_ : longest)},
                                   {.model = where});
    return predictor;
  }

  /// Of a checkpoint that an earlier version wrote: the run's data set says what the folder does not.
  Predictor of_configuration(const RunFolder& run, const fs::path& checkpoint) const {
    Configuration configuration = read_configuration(run.configuration(), {});
    configuration.memory = {};
    configuration = resolve(configuration);
    DatasetOptions options = dataset_options(configuration, Split::train);
    const DatasetKind& kind = dataset_kinds().get(configuration.data.name);
    if (kind.inputs == nullptr)
      reject("{}: predict reads texts, and the run's data set {} has none", from_, configuration.data.name);
    if (max_length_ > 0) options.settings["max_length"] = static_cast<double>(max_length_);
    Predictor predictor{.reader = kind.inputs(options),
                        .task = configuration.task.name,
                        .classes = describe_dataset(configuration.data.name, options).classes};
    take_weights_of(checkpoint, configuration);
    predictor.model = make_model(configuration, available_device(configuration), false).model;
    return predictor;
  }

  void each_input(const auto& take) const {
    if (!texts_.empty()) {
      for (const std::string& text : texts_) take(Input{text, fmt::format("`{}`", text)});
      return;
    }
    const bool standard = input_.empty() || input_ == "-";
    std::ifstream file;
    if (!standard) {
      file.open(input_);
      if (!file) reject("{}: cannot be read", input_);
    }
    std::istream& stream = standard ? std::cin : file;
    std::int64_t line = 0;
    for (std::string text; std::getline(stream, text);) {
      if (!text.empty() && text.back() == '\r') text.pop_back();
      take(Input{text, fmt::format("{}:{}", standard ? "standard input" : input_, ++line)});
    }
    if (stream.bad()) reject("{}: cannot be read beyond line {}", standard ? "standard input" : input_, line);
  }

  void print(const std::vector<Input>& inputs, const Predictor& predictor) const {
    const auto& [model, reader, task, classes, batch_size] = predictor;
    std::vector<Sample> samples(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      samples[i].begin(0);
      try {
        read(inputs[i].text, *reader, samples[i]);
      } catch (const Error& error) {
        reject("{}: {}", inputs[i].place, error.what());
      }
    }
    const NoGrad no_grad;
    Outputs outputs = model->forward(collate(samples, reader->fields()));
    const bool embeds = outputs.contains("embeddings");
    if (!embeds && !outputs.contains("logits")) reject("{}: predict has no use for the model's head", from_);
    const Tensor rows = outputs.take(embeds ? "embeddings" : "logits").tensor();
    if (rows.shape().rank() != 2 || rows.rows() != std::ssize(inputs))
      reject("{}: predict needs one prediction per text; this model's head predicts per token", from_);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ordered_json line{{"text", inputs[i].text}};
      const std::vector<double> row = row_of(rows, static_cast<std::int64_t>(i));
      if (!std::ranges::all_of(row, [](double value) { return std::isfinite(value); }))
        fail("{}: the model's output is not finite", inputs[i].place);
      if (embeds)
        line["embedding"] = row;
      else
        line.update(meaning_of(row, task, classes));
      fmt::print("{}\n", line.dump());
    }
    if (std::fflush(stdout) != 0) fail("standard output cannot be written: {}", std::strerror(errno));
  }
  void read(const std::string& text, const InputReader& reader, Sample& sample) const {
    if (!pairs_) return reader.read(text, sample);
    const std::size_t tab = text.find('\t');
    if (tab == std::string::npos) reject("expected two texts with a tab between them");
    reader.read_pair(std::string_view(text).substr(0, tab), std::string_view(text).substr(tab + 1), sample);
  }

  std::string from_, input_;
  std::vector<std::string> texts_;
  std::int64_t max_length_ = 0, top_ = 0;
  bool pairs_ = false, json_ = false;
};

const RegisterCommand predict(22, "predict", "say what a trained model makes of images or texts", declare<Predict>);

}  // namespace
}  // namespace lacuna::apps
