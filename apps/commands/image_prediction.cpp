#include "apps/commands/image_prediction.h"

#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/config/yaml.h"
#include "apps/output/output.h"
#include "apps/train/run_folder.h"
#include "apps/train/training.h"
#include "autograd/tape.h"
#include "core/parallel.h"
#include "data/encoded_images.h"
#include "data/files/file_tree.h"
#include "data/files/input_file.h"
#include "data/sets/image_folder_layout.h"
#include "models/checkpoint.h"
#include "models/folders/folder.h"
#include "models/io/adapter_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Where the weights lie: in a folder, or in a checkpoint of a run.
struct Source {
  std::optional<RunFolder> run;
  fs::path weights;
};

Source source_of(const std::string& from) {
  const CheckpointPath point = checkpoint_path(from);
  std::error_code ignored;
  if (!fs::is_regular_file(point.run / "config.yaml", ignored)) return {std::nullopt, expand_home(from)};
  const RunFolder run = RunFolder::open(point.run);
  return {run, point.checkpoint.empty() ? run.best() : run.checkpoint(point.checkpoint)};
}

std::optional<ModelFolder> folder_of(const Source& source) {
  const bool is_checkpoint = source.run && !is_adapter_folder(source.weights);
  return read_model_folder(is_checkpoint ? weights_path(source.weights, "RUN") : source.weights);
}

bool takes_images(const Configuration& configuration) {
  const DatasetInfo data = describe_dataset(configuration.data.name, dataset_options(configuration, Split::train));
  return image_channels(data.fields) > 0;
}

/// What evaluation takes from a run's configuration, on images without labels: neither data set nor task is needed.
std::vector<std::string> changes_for_images(const Tree& root) {
  const auto section = [&](std::string_view name, std::string text, std::initializer_list<std::string_view> keys) {
    const TreeEntry* const found = root.find(name);
    for (const std::string_view key : keys)
      if (const TreeEntry* const entry = found == nullptr ? nullptr : found->value.find(key))
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", key, to_yaml(entry->value));
    return fmt::format("{}={{{}}}", name, text);
  };
  return {section("data", "name: imagefolder",
                  {"image_size", "mean", "std", "interpolation", "crop_pct", "crop_mode", "decode", "exif"}),
          section("train", "", {"batch_size", "threads", "precision"}), "task={name: classification}",
          "model.from=\"\""};
}

struct Predictor {
  Configuration configuration{};
  std::string task = "classification";
  std::vector<std::string> classes{};
  std::unique_ptr<Model> model{};
};

/// Everything that evaluation needs, without the data set's files.
Predictor predictor_of(const Source& source) {
  const std::optional<ModelFolder> folder = folder_of(source);
  Predictor predictor;
  Configuration& configuration = predictor.configuration;
  if (source.run) {
    read_progress(source.weights);  // refuses one whose files have changed
    std::vector<std::string> changes;
    if (folder) {  // the folder says what the data would
      const fs::path file = source.run->configuration();
      Problems problems;
      const Tree root = parse_yaml(read_text(file), {file.string(), 1, 1}, problems);
      problems.refuse_if_any();
      changes = changes_for_images(root);
      const TreeEntry* const task = root.find("task");
      if (const TreeEntry* const name = task == nullptr ? nullptr : task->value.find("name"))
        predictor.task = name->value.text;
    }
    configuration = read_configuration(source.run->configuration(), changes);
    if (!folder) predictor.task = configuration.task.name;
  } else {
    std::vector<std::string> words{fmt::format("model.from={}", to_yaml(source.weights.native())),
                                   "data.name=imagefolder"};
    for (const HyperParameter& parameter : folder->hyper_parameters)
      if (parameter.key == "num_classes")
        words.push_back(fmt::format("model.num_classes={}", lacuna::to_string(parameter.value)));
    configuration = parse_configuration("", "the command line", words);
  }
  configuration.memory = {};
  if (configuration.train.precision != "bf16") configuration.train.precision = "f32";  // the CPU has no f16 and no tf32
  configuration = resolve(configuration);
  if (!source.run && folder->problem == "multi_label_classification") predictor.task = "multi_label";
  if (folder)
    predictor.classes = folder->labels;
  else
    predictor.classes = describe_dataset(configuration.data.name, dataset_options(configuration, Split::train)).classes;
  if (source.run) take_weights_of(source.weights, configuration);
  const Device device = available_device(configuration);
  predictor.model =
      folder && is_adapter_folder(source.weights)
          ? make_adapted_model(source.weights, *folder, precision_type(configuration.train.precision, device), device)
          : make_model(configuration, device, false).model;
  predictor.model->set_training(false);
  return predictor;
}

/// Calls `take` with the name of each image and what reads its bytes.
using ReadInto = std::function<void(const std::function<std::span<std::uint8_t>(std::int64_t)>& place)>;
void each_image(const std::vector<std::string>& paths, const std::function<void(std::string, const ReadInto&)>& take) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(path, ignored);
    if (!is_folder && !path.ends_with(".tar")) {
      take(path, [&](const auto& place) {
        const InputFile file(path);
        file.read(0, place(file.size()));
      });
      continue;
    }
    const auto tree = FileTree::open(path);
    std::int64_t images = 0;
    for (std::int64_t file = 0; file < tree->size(); ++file) {
      if (!is_image_name(tree->path(file))) continue;
      ++images;
      take(is_folder ? (fs::path(path) / tree->path(file)).native() : fmt::format("{}: {}", path, tree->path(file)),
           [&](const auto& place) { tree->read(file, place); });
    }
    if (images == 0) reject("{}: expected images, got none", path);
  }
}

/// Probabilities of the classes, of each by itself where an image may have several.
std::vector<double> probabilities_of(std::vector<double> logits, bool several) {
  if (several) {
    for (double& logit : logits) logit = 1 / (1 + std::exp(-logit));
    return logits;
  }
  const double highest = *std::ranges::max_element(logits);
  for (double& logit : logits) logit = std::exp(logit - highest);
  const double sum = std::accumulate(logits.begin(), logits.end(), 0.0);
  for (double& logit : logits) logit /= sum;
  return logits;
}

void print(const std::string& image, const std::vector<double>& probabilities, const std::vector<std::string>& classes,
           const ImagePredictionOptions& options) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return probabilities[i]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(options.top)));
  const auto name = [&](std::size_t i) { return i < classes.size() ? classes[i] : std::to_string(i); };
  if (!options.json) {
    std::vector<std::string> words;
    for (const std::size_t i : order) words.push_back(fmt::format("{} {:.4f}", name(i), probabilities[i]));
    fmt::print("{}: {}\n", image, fmt::join(words, ", "));
    return;
  }
  ordered_json line{{"image", image}, {"label", name(order.front())}, {"probability", probabilities[order.front()]}};
  for (const std::size_t i : order) line["top"].push_back({{"label", name(i)}, {"probability", probabilities[i]}});
  fmt::print("{}\n", line.dump());
}

}  // namespace

bool predicts_images(const std::string& from) {
  const Source source = source_of(from);
  if (const std::optional<ModelFolder> folder = folder_of(source)) {
    const ModelDescription model = describe_model(folder->model, folder->hyper_parameters);
    return std::ranges::find(model.hyper_parameters, "image_size", &HyperParameter::key) !=
           model.hyper_parameters.end();
  }
  return source.run && takes_images(read_configuration(source.run->configuration(), {}));
}

void predict_images(const std::string& from, const std::vector<std::string>& paths,
                    const ImagePredictionOptions& options) {
  if (paths.empty()) reject("expected images: files, folders or tar archives");
  const Predictor predictor = predictor_of(source_of(from));
  const Configuration& configuration = predictor.configuration;
  const ThreadCountScope threads(static_cast<int>(configuration.train.threads));
  const std::string& task = predictor.task;
  if (task != "classification" && task != "multi_label" && task != "distillation" && task != "probe")
    reject("{}: predict names the classes of images, and the task {} has none", from, task);
  DatasetInfo source{.name = "images", .fields = encoded_image_fields()};
  source.mean = {configuration.data.mean.begin(), configuration.data.mean.end()};
  source.deviation = {configuration.data.std.begin(), configuration.data.std.end()};
  const Transforms transforms = evaluation_transforms(configuration, source);
  SampleFields fields = source.fields;
  for (const auto& transform : transforms) fields = transform->describe(std::move(fields));
  const SampleFields images{field_of(fields, "images")};

  constexpr std::int64_t most = 16;
  const auto size = static_cast<std::size_t>(std::min(most, configuration.train.batch_size));
  std::vector<Sample> samples(size);
  std::vector<std::string> names;
  std::int64_t unread = 0;
  const auto run = [&] {
    if (names.empty()) return;
    const NoGrad no_grad;
    const Tensor logits =
        predictor.model->forward(collate(std::span(samples).first(names.size()), images)).take("logits").tensor();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      const std::vector<double> values = logits.row_range(row, row + 1).to_vector();
      if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
        fail("{}: the model's output is not finite", names[i]);
      print(names[i], probabilities_of(values, task == "multi_label"), predictor.classes, options);
    }
    if (std::fflush(stdout) != 0) fail("standard output cannot be written: {}", std::strerror(errno));
    names.clear();
  };
  each_image(paths, [&](std::string name, const ReadInto& read) {
    Sample& sample = samples[names.size()];
    sample.begin(0);
    sample.origin = name;
    try {
      Tensor encoded;
      read([&](std::int64_t bytes) {
        encoded = sample.make("encoded", {bytes}, DType::u8);
        return std::span(encoded.data<std::uint8_t>(), static_cast<std::size_t>(bytes));
      });
      sample.set("encoded", std::move(encoded));
      SampleRandom random(0, 0, 0);
      for (const auto& transform : transforms) transform->apply(sample, random);
    } catch (const Error& error) {  // the other images are predicted all the same
      if (error.fault() != Fault::input) throw;
      const std::string what = error.what();
      print_error(fmt::format("lacuna: {}{}\n", what.find(name) == std::string::npos ? name + ": " : "", what));
      ++unread;
      return;
    }
    names.push_back(std::move(name));
    if (names.size() == size) run();
  });
  run();
  if (unread > 0) reject("{} image{} could not be read", unread, unread == 1 ? "" : "s");
}

}  // namespace lacuna::apps
