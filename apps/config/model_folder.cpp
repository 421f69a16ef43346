#include "apps/config/model_folder.h"

#include "apps/config/model_options.h"
#include "apps/config/resolve.h"
#include "data/text/labelled_text.h"
#include "data/text/language/encoder.h"
#include "models/folders/values.h"
#include "models/registry.h"
#include "models/task.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace lacuna::apps {
namespace {

std::string family_of(const std::string& model) {
  return model_families().contains(model) ? model : model_presets().get(model).family;
}

/// Whether this option may differ from the folder's without making its weights unusable.
bool may_differ(const Field& field, const Tree& given, const Tree& stored) {
  const std::string_view key = field.name;
  if (given == stored || field.fits_any_weights) return true;
  const auto reads_token = [](const Tree& pool) { return pool == Tree("token") || pool == Tree("token_avg"); };
  if (key == "global_pool" && reads_token(given) && reads_token(stored)) return true;  // the heads alone differ
  const bool initial = key == "init_values" || key == "ls_init_value";  // 0: the model has no such tensors
  return initial && (given == Tree(0)) == (stored == Tree(0));
}

/// The hyper-parameters of a folder. If it names a family (`vit`), the configuration sets those that the folder does
/// not list.
std::vector<HyperParameter> said_by(const ModelFolder& folder, const Configuration::Model& model) {
  std::vector<HyperParameter> said = folder.hyper_parameters, given = model.options;
  if (!model_families().contains(folder.model)) return said;
  if (model_presets().contains(model.name)) {
    const std::vector<HyperParameter>& preset = model_presets().get(model.name).values;
    given.insert(given.end(), preset.begin(), preset.end());
  }
  for (const HyperParameter& option : given)
    if (find_value(said, option.key) == nullptr) said.push_back(option);
  return said;
}

/// Whether the configuration's model has a backbone of this family.
bool is_backbone_of(const std::string& family, const Configuration& configuration) {
  const ModelDescription asked = describe_model(configuration.model.name, hyper_parameters_of(configuration));
  const Tree* const backbone = find_value(asked.hyper_parameters, "backbone");
  if (backbone == nullptr) return false;
  const TreeEntry* const name = backbone->find("name");
  const std::string own = name == nullptr ? backbone->text : name->value.text;
  return (model_families().contains(own) || model_presets().contains(own)) && family_of(own) == family;
}

}  // namespace

std::optional<ModelFolder> take_model(Configuration& configuration, const Tree& root, Problems& problems) {
  Configuration::Model& model = configuration.model;
  if (model.from.empty()) return {};
  const Location where = place_of(root, "model", "from");
  std::optional<ModelFolder> folder;
  try {
    folder = read_model_folder(model.from);
  } catch (const Error& error) {
    problems.add(where, error.what());
  }
  if (!folder) return {};
  const ModelDescription stored = describe_model(folder->model, said_by(*folder, model));
  for (const HyperProblem& problem : stored.problems)
    problems.add(where, fmt::format("{}: {}", folder->config.string(), problem.message));
  if (!stored.problems.empty()) return {};

  const std::string instead =
      fmt::format("'model={{from: {}}}' in place of the whole section takes the folder's model", model.from);
  std::vector<HyperParameter> given;
  if (!model.name.empty()) {
    if (!model_families().contains(model.name) && !model_presets().contains(model.name)) return {};  // said already
    if (family_of(model.name) != stored.family && is_backbone_of(stored.family, configuration)) return {};
    if (family_of(model.name) != stored.family) {
      problems.add(place_of(root, "model", "name"),
                   fmt::format("model.name is {}, but {} describes a {} (family {}); {}", model.name,
                               folder->config.string(), folder->model, stored.family, instead));
      return {};
    }
    if (model_presets().contains(model.name)) given = model_presets().get(model.name).values;
  }
  for (const HyperParameter& option : hyper_parameters_of(configuration)) {
    std::erase_if(given, [&](const HyperParameter& preset) { return preset.key == option.key; });
    given.push_back(option);
  }
  const ModelDescription asked = describe_model(stored.family, given);
  for (const HyperParameter& option : given) {
    const Tree *const ours = find_value(asked.hyper_parameters, option.key), *const theirs = find_value(
                                                                                 stored.hyper_parameters, option.key);
    if (ours == nullptr || theirs == nullptr || may_differ(*asked.options.find(option.key), *ours, *theirs)) continue;
    problems.add(place_of(root, "model", find_value(model.options, option.key) == nullptr ? "name" : option.key),
                 fmt::format("model.{} is {}, but {} has {}; {}", option.key, lacuna::to_yaml(*ours),
                             folder->config.string(), lacuna::to_yaml(*theirs), instead));
  }
  // The task chooses the head. Under another name all hyper-parameters are set, since that name has other defaults.
  // `num_classes` has a key of its own.
  const bool same_name = model.name.empty() || model.name == folder->model;
  if (model.name.empty()) model.name = folder->model;
  for (const HyperParameter& parameter : same_name ? folder->hyper_parameters : stored.hyper_parameters)
    if (parameter.key != "num_classes" && parameter.key != "head" && find_value(given, parameter.key) == nullptr)
      model.options.push_back(parameter);
  return folder;
}

namespace {

/// Completes the preparation of images with that of the preset `model`.
ImagePreparation completed(ImagePreparation said, const std::string& model) {
  if (!model_presets().contains(model)) return said;
  const ImagePreparation& preset = model_presets().get(model).images;
  if (said.mean.empty() || said.std.empty()) {
    said.mean = preset.mean;
    said.std = preset.std;
  }
  if (said.interpolation.empty()) said.interpolation = preset.interpolation;
  if (said.crop_pct <= 0) {
    said.crop_pct = preset.crop_pct;
    said.crop_mode = preset.crop_mode;
  }
  return said;
}

bool finds_objects(const std::string& model) {
  const std::string family = model_presets().contains(model) ? model_presets().get(model).family : model;
  return model_families().contains(family) && model_families().get(family).task == "detection";
}

}  // namespace

std::vector<double> for_channels(const std::vector<double>& values, std::int64_t channels) {
  if (values.empty() || std::ssize(values) == channels) return values;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return std::vector<double>(static_cast<std::size_t>(channels), mean);
}

void take_images(Configuration& configuration, const Tree& root, ImagePreparation said, std::int64_t channels) {
  const ImagePreparation images = completed(std::move(said), configuration.model.name);
  const TreeEntry* const section = root.find("data");
  const auto is_open = [&](std::string_view key) { return section == nullptr || section->value.find(key) == nullptr; };
  TransformOptions& data = configuration.data.images;
  if (is_open("interpolation") && !images.interpolation.empty()) {
    const auto known = from_name<Interpolation>(images.interpolation);
    if (!known)
      reject("the model's folder asks for interpolation {}, which is unknown: data.interpolation says which to use",
             images.interpolation);
    data.interpolation = *known;
  }
  if (data.channels == 0 && channels == 1) data.channels = 1;
  if (is_open("crop_pct") && images.crop_pct > 0) data.crop_pct = images.crop_pct;
  const bool known_mode = images.crop_mode == "center" || images.crop_mode == "squash" || images.crop_mode == "border";
  if (is_open("crop_mode") && known_mode)
    data.crop_mode = images.crop_mode;
  else if (is_open("crop_mode") && finds_objects(configuration.model.name))
    data.crop_mode = "border";  // a crop would cut objects off
  if (channels == 0 || images.mean.empty() || !data.mean.empty() || !data.deviation.empty()) return;
  data.mean = for_channels(images.mean, channels);
  data.deviation = for_channels(images.std, channels);
}

namespace {

/// Describes what belongs to the texts of a run beside its weights: the tokenizer, with the template that conversations
/// had, and how a language model's texts begin and end.
void describe_texts(const Experiment& experiment, ModelFolder& folder) {
  const DatasetOptions options = dataset_options(experiment, Split::train);
  const auto setting = [&](const char* key) {
    const auto found = options.settings.find(key);
    return found == options.settings.end() ? std::string() : found->second.text;
  };
  const std::string path = setting("tokenizer"), chat_template = setting("chat_template");
  if (!path.empty()) folder.tokenizer = tokenizer_texts(path);
  if (model_families().get(experiment.architecture.family).task != "causal_lm") return;
  if (!options.model.empty())
    if (auto origin = read_model_folder(options.model)) {
      folder.tokens = origin->tokens;
      folder.tokenizer.merge(origin->tokenizer);
    }
  if (path.empty()) return;
  const std::shared_ptr<const Tokenizer> tokenizer = tokenizer_of({.tokenizer = path}, options);
  const TokenizerConfig& config = tokenizer->config();
  if (!chat_template.empty()) set_chat_template(*chat_template_text(chat_template, config), folder.tokenizer);
  for (const auto& [key, token] : {std::pair("bos_token_id", config.bos), std::pair("eos_token_id", config.eos)})
    if (const auto id = tokenizer->find(token)) folder.tokens.emplace(key, std::to_string(*id));
}

}  // namespace

ModelFolder describe_folder(const Experiment& experiment) {
  const DatasetInfo& data = experiment.samples;
  ModelFolder folder{.model = experiment.model.name, .hyper_parameters = hyper_parameters_of(experiment)};
  folder.labels = data.classes;
  folder.columns = data.text_columns;
  folder.problem = tasks().get(experiment.task.name).problem;
  if (experiment.output.weights == "bf16") folder.stored = DType::bf16;
  describe_texts(experiment, folder);
  const TransformOptions& images = experiment.data.images;
  const Interpolation evaluated =
      images.interpolation == Interpolation::random ? Interpolation::bicubic : images.interpolation;
  folder.images = {.mean = images.mean.empty() ? as_written(data.mean) : images.mean,
                   .std = images.deviation.empty() ? as_written(data.deviation) : images.deviation,
                   .interpolation = std::string(to_name(evaluated)),
                   .crop_pct = images.crop_pct,
                   .crop_mode = images.crop_mode};
  return folder;
}

}  // namespace lacuna::apps
