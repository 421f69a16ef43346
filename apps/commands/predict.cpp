// lacuna predict: what a trained model says about texts.
#include "apps/command.h"
#include "apps/config/resolve.h"
#include "apps/train/run_folder.h"
#include "apps/train/training.h"
#include "autograd/tape.h"
#include "core/parallel.h"
#include "models/checkpoint.h"

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

class Predict {
 public:
  explicit Predict(CLI::App& app) {
    app.add_option("run", run_, "a run folder, whose best checkpoint is taken, or one of its checkpoints (RUN/last)")
        ->type_name("RUN | RUN/last")
        ->required();
    app.add_option("text", texts_, "texts; without any, the lines of standard input")->type_name("TEXT");
    app.add_option("--input", input_, "a file with a text on each line; -: standard input")->type_name("FILE");
    app.add_flag("--pairs", pairs_, "each input is two texts with a tab between them");
    app.footer("Writes a line of JSON for each text: its label and probabilities, or its value.");
  }

  ExitCode operator()() {
    if (!texts_.empty() && !input_.empty()) reject("expected texts or --input, got both");
    const CheckpointPath point = checkpoint_path(run_);
    const RunFolder folder = RunFolder::open(point.run);
    Configuration configuration = read_configuration(folder.configuration(), {});
    configuration.memory = {};
    configuration = resolve(configuration);
    const DatasetOptions options = dataset_options(configuration, Split::train);
    const DatasetKind& kind = dataset_kinds().get(configuration.data.name);
    if (kind.inputs == nullptr)
      reject("{}: predict reads texts, and the run's data set {} has none", run_, configuration.data.name);
    const std::unique_ptr<const InputReader> reader = kind.inputs(options);
    const std::vector<std::string> classes = describe_dataset(configuration.data.name, options).classes;
    const ThreadCountScope threads(static_cast<int>(configuration.train.threads));
    const std::filesystem::path checkpoint =
        point.checkpoint.empty() ? folder.best() : folder.checkpoint(point.checkpoint);
    read_progress(checkpoint);  // refuses one whose files have changed
    configuration.model.from = checkpoint.string();
    const MadeModel made = make_model(configuration, Device::cpu, false);
    made.model->set_training(false);

    std::vector<Input> batch;
    const auto run_batch = [&] {
      if (!batch.empty()) print(batch, *made.model, *reader, configuration.task.name, classes);
      batch.clear();
    };
    const auto size = static_cast<std::size_t>(configuration.train.batch_size / configuration.train.accumulate);
    each_input([&](Input input) {
      batch.push_back(std::move(input));
      if (batch.size() == size) run_batch();
    });
    run_batch();
    return 0;
  }

 private:
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

  void print(const std::vector<Input>& inputs, Model& model, const InputReader& reader, const std::string& task,
             const std::vector<std::string>& classes) const {
    std::vector<Sample> samples(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      samples[i].begin(0);
      try {
        read(inputs[i].text, reader, samples[i]);
      } catch (const Error& error) {
        reject("{}: {}", inputs[i].place, error.what());
      }
    }
    const NoGrad no_grad;
    const Tensor logits = model.forward(collate(samples, reader.fields())).take("logits").tensor();
    if (logits.shape().rank() != 2 || logits.rows() != std::ssize(inputs))
      reject("{}: predict says what a whole text is, and the task {} does not tell that", run_, task);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ordered_json line{{"text", inputs[i].text}};
      const std::vector<double> row = row_of(logits, static_cast<std::int64_t>(i));
      if (!std::ranges::all_of(row, [](double logit) { return std::isfinite(logit); }))
        fail("{}: the model's output is not finite", inputs[i].place);
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

  std::string run_, input_;
  std::vector<std::string> texts_;
  bool pairs_ = false;
};

const RegisterCommand predict(22, "predict", "say what a trained model makes of texts", declare<Predict>);

}  // namespace
}  // namespace lacuna::apps
