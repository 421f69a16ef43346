#include "apps/commands/opened_model.h"

#include "apps/config/model_folder.h"
#include "apps/config/paths.h"
#include "apps/config/resolve.h"
#include "apps/config/yaml.h"
#include "apps/output/output.h"
#include "data/encoded_images.h"
#include "data/image_inputs.h"
#include "data/text/text_dataset.h"
#include "data/text/tokenizer.h"
#include "models/adapters.h"
#include "models/checkpoint.h"
#include "models/folders/timm.h"
#include "models/folders/transformers.h"
#include "models/image_model.h"
#include "models/io/adapter_folder.h"
#include "models/io/weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lacuna::apps {

Experiment experiment_of(const RunFolder& run) {
  Experiment experiment = read_configuration(run.configuration(), {});
  experiment.memory = {};
  experiment.train.precision = "f32";
  return resolve(std::move(experiment));
}

namespace {

namespace fs = std::filesystem;

/// Opens a checkpoint of a run, or a folder.
void open(const fs::path& path, Device device, const fs::path& base, OpenedModel& opened) {
  const bool adapted = is_adapter_folder(path);
  if (!adapted && !base.empty()) reject("--base: {} is no adapter, which alone has a base", path.string());
  opened.weights = opened.run && !adapted ? weights_path(path, "RUN") : path;
  std::optional<ModelFolder> folder = read_model_folder(opened.weights);
  opened.texts = folder ? folder->config.parent_path() : fs::path();
  if (adapted && !folder && !opened.run) {  // PEFT writes no config.json
    folder = describe_adapter(path, base);
    opened.texts = tokenizer_texts(path).empty() ? folder->config.parent_path() : path;
  }
  if (!folder && !opened.run)
    reject("{}: expected a run, one of its checkpoints, or a folder with a config.json that says what the model is",
           path.string());
  if (adapted && folder) {
    opened.model = make_adapted_model(path, *folder, DType::f32, device, base);
  } else if (adapted) {  // an earlier version wrote no config.json into checkpoints
    Experiment experiment = experiment_of(*opened.run);
    folder = describe_folder(experiment);
    take_weights_of(path, experiment);
    if (!base.empty()) experiment.weights = base.string();
    opened.model = make_model(experiment, device, false).model;
  } else {
    if (!folder) folder = describe_folder(experiment_of(*opened.run));
    opened.model = make_described(*folder, open_weights(opened.weights, folder), device);
  }
  opened.model->set_training(false);
  require_head(*folder, describe_model(folder->model, folder->hyper_parameters).hyper_parameters);
  opened.folder = std::move(*folder);
  for (const std::string& note : opened.folder.notes) print_error(fmt::format("lacuna: note: {}\n", note));
}

}  // namespace

std::optional<CheckpointPath> run_of(const fs::path& from) {
  CheckpointPath point = checkpoint_path(from);
  std::error_code ignored;
  return fs::is_regular_file(point.run / "config.yaml", ignored) ? std::optional(std::move(point)) : std::nullopt;
}

void with_checkpoint(const CheckpointPath& point, const std::function<void(const fs::path&)>& open) {
  constexpr int attempts = 20;
  for (int attempt = 1;; ++attempt) {
    const RunFolder run = RunFolder::open(point.run);
    const fs::path checkpoint = point.checkpoint.empty() ? run.best() : run.checkpoint(point.checkpoint);
    try {
      read_progress(checkpoint);  // rejects a checkpoint whose files have changed
      return open(checkpoint);
    } catch (const Error&) {
      std::error_code ignored;
      if (fs::exists(checkpoint, ignored) || attempt == attempts) throw;
    }
  }
}

std::unique_ptr<Model> make_described(const ModelFolder& folder, const FolderWeights& weights, Device device) {
  std::unique_ptr<Model> model = build_model(
      folder.model, folder.hyper_parameters,
      {.device = device, .training = false, .formats = formats_of(folder.model, folder.hyper_parameters, weights)});
  load_weights(*model, weights.files, weights.options);
  return model;
}

std::string usual_format(const OpenedModel& opened) {
  const std::string family = describe_model(opened.folder.model, opened.folder.hyper_parameters).family;
  if (timm_forms().contains(family)) return "timm";
  const std::vector<std::string> types = transformers_types().names();
  const bool is_known =
      std::ranges::any_of(types, [&](const auto& type) { return transformers_types().get(type).family == family; });
  return is_known || dynamic_cast<const ImageModel*>(opened.model.get()) == nullptr ? "transformers" : "own";
}

ModelFolder description_to_write(const OpenedModel& opened, const std::string& dtype) {
  if (dtype != "f32" && dtype != "bf16" && dtype != "f16") reject("dtype: expected f32, bf16 or f16, got {}", dtype);
  ModelFolder folder = opened.folder;
  folder.stored = dtype == "bf16" ? DType::bf16 : dtype == "f16" ? DType::f16 : DType::f32;
  // Checkpoints in transformers' convention do not say how a run showed its images.
  if (opened.run && opened.reads_images()) folder.images.crop_mode = opened.image_options().crop_mode;
  if (opened.texts.empty()) return folder;
  auto texts = tokenizer_texts(opened.texts);
  texts.merge(folder.tokenizer);
  folder.tokenizer = std::move(texts);
  return folder;
}

std::shared_ptr<const Model> merged_model(const OpenedModel& opened) {
  if (!opened.model->adaptation()) return {std::shared_ptr<void>(), opened.model.get()};
  std::shared_ptr<Model> merged = build_model(opened.folder.model, opened.folder.hyper_parameters, {.training = false});
  merge(*opened.model, *merged);
  return merged;
}

namespace {

/// The ids that end a continuation, as JSON: a number or a list; null: not said.
nlohmann::ordered_json stop_ids(const ModelFolder& folder) {
  const auto generation = folder.tokenizer.find("generation_config.json");
  if (generation != folder.tokenizer.end())
    if (const auto json = nlohmann::ordered_json::parse(generation->second, nullptr, false);
        json.is_object() && json.contains("eos_token_id"))
      return json["eos_token_id"];
  const auto token = folder.tokens.find("eos_token_id");
  return token == folder.tokens.end() ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(token->second);
}

}  // namespace

nlohmann::ordered_json write_model(const OpenedModel& opened, const fs::path& out, const std::string& format_or_usual,
                                   const std::string& dtype) {
  const std::string format = format_or_usual.empty() ? usual_format(opened) : format_or_usual;
  if (format != "timm" && format != "transformers" && format != "own")
    reject("format: expected timm, transformers or own, got {}", format);
  const ModelFolder folder = description_to_write(opened, dtype);
  const std::shared_ptr<const Model> model = merged_model(opened);
  std::vector<std::string> notes;
  if (format == "own")
    write_new_folder(out, [&](const fs::path& made) {
      save_weights(*model, made / "model.safetensors", folder.stored);
      write_texts(made, files_beside_weights(*model, folder));
    });
  else
    notes = write_model_folder(out, *model, folder, format == "timm" ? Library::timm : Library::transformers);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(out)) files.push_back(entry.path().filename().string());
  std::ranges::sort(files);
  return {{"model", folder.model},  {"weights", opened.weights.string()},     {"format", format},
          {"dtype", dtype},         {"parameters", model->parameter_count()}, {"classes", model->num_classes()},
          {"folder", out.string()}, {"stop_ids", stop_ids(folder)},           {"files", files},
          {"notes", notes}};
}

OpenedModel open_model(const fs::path& from, Device device, const fs::path& base) {
  require_existing(from);
  OpenedModel opened;
  const std::optional<CheckpointPath> point = run_of(from);
  if (!point) {
    open(expand_home(from), device, expand_home(base), opened);
    return opened;
  }
  opened.run = RunFolder::open(point->run);
  opened.configuration = read_yaml(opened.run->configuration());
  with_checkpoint(*point, [&](const fs::path& checkpoint) { open(checkpoint, device, expand_home(base), opened); });
  return opened;
}

std::unique_ptr<Task> OpenedModel::task(const Vocabulary& vocabulary) const {
  OptionValues options;
  if (const TreeEntry* const given = configuration.find("task"))
    for (const TreeEntry& entry : given->value.entries) options.emplace(entry.key, entry.value);
  const auto given_name = options.extract("name");
  const std::string name = given_name ? given_name.mapped().text : task_of(folder);
  std::unique_ptr<Task> task = lacuna::make_task(name, options, *model);
  DatasetInfo data{.name = name, .fields = model->inputs(), .classes = folder.labels, .vocabulary = vocabulary};
  data.mean.assign(folder.images.mean.begin(), folder.images.mean.end());
  data.deviation.assign(folder.images.std.begin(), folder.images.std.end());
  task->see(data);
  return task;
}

bool OpenedModel::reads_images() const { return image_channels(model->inputs()) > 0; }

namespace {

/// The configuration of an evaluation, as far as images go.
Configuration evaluation_of(const OpenedModel& opened) {
  const Shape& shape = opened.model->inputs().front().shape;
  Configuration evaluation;
  evaluation.model.name = opened.folder.model;
  take_images(evaluation, {}, opened.folder.images, shape.back());
  TransformOptions& images = evaluation.data.images;
  Problems problems;
  for (const Field& field : TransformOptions::fields())
    if (const Tree* const value = value_of(opened.configuration, "data", field.name); value && field.use == Use::any)
      read_field(field, field.name, *value, &images, problems);
  problems.refuse_if_any();
  images.image_size = {shape[0], shape[1]};
  return evaluation;
}

}  // namespace

TransformOptions OpenedModel::image_options() const {
  TransformOptions images = evaluation_of(*this).data.images;
  if (images.interpolation == Interpolation::random) images.interpolation = Interpolation::bicubic;
  return images;
}

std::unique_ptr<const InputReader> OpenedModel::reader(std::int64_t max_length) const {
  const SampleField& input = model->inputs().front();
  const std::int64_t size = input.shape.front();
  if (reads_images())
    return image_inputs(
        evaluation_transforms(evaluation_of(*this), {.name = folder.model, .fields = encoded_image_fields()}));
  if (input.collation == Collation::stacked)
    reject("{}: predict makes inputs of images and texts, and the model takes {}", weights.string(), input.name);
  if (max_length > size) reject("--max-length: expected at most {}, as the model takes, got {}", size, max_length);
  if (!texts.empty() && !tokenizer_texts(texts).empty()) {
    auto inputs =
        text_inputs({.max_length = std::max<std::int64_t>(3, max_length > 0 ? max_length : size)}, {.model = texts});
    if (const std::int64_t known = inputs->fields().front().below; known > input.below)
      reject("{}: the tokenizer has ids below {}, and the model takes those below {}", texts.string(), known,
             input.below);
    return inputs;
  }
  if (!run) reject("{}: expected a tokenizer beside the weights: tokenizer.json or vocab.txt", weights.string());
  // The run's data set has the tokenizer that checkpoints of an earlier version lack.
  const Experiment past = experiment_of(*run);
  const DatasetKind& kind = dataset_kinds().get(past.data.name);
  if (kind.inputs == nullptr)
    reject("{}: expected texts, and the run's data set {} has none", run->path().string(), past.data.name);
  DatasetOptions options = dataset_options(past, Split::train);
  if (max_length > 0) options.settings["max_length"] = max_length;
  return kind.inputs(options);
}

}  // namespace lacuna::apps
