#include "apps/config/model_folder.h"

#include "apps/config/model_options.h"
#include "apps/config/resolve.h"
#include "data/text/labelled_text.h"
#include "data/text/language/encoder.h"
#include "models/backbone.h"
#include "models/folders/values.h"
#include "models/io/weights.h"
#include "models/registry.h"
#include "models/task.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <set>

namespace lacuna::apps {
namespace {

std::string family_of(const std::string& model) {
  return model_families().contains(model) ? model : model_presets().get(model).family;
}

bool is_known(const std::string& model) { return model_families().contains(model) || model_presets().contains(model); }

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
  const bool is_backbone = is_known(model.name) && family_of(model.name) != family_of(folder.model);
  if (!model_families().contains(folder.model) || is_backbone) return said;
  if (model_presets().contains(model.name)) {
    const std::vector<HyperParameter>& preset = model_presets().get(model.name).values;
    given.insert(given.end(), preset.begin(), preset.end());
  }
  for (const HyperParameter& option : given)
    if (find_value(said, option.key) == nullptr) said.push_back(option);
  return said;
}

/// Hyper-parameters that are said: a preset's, and those in their place or beside them.
std::vector<HyperParameter> all_given(const std::string& model, const std::vector<HyperParameter>& own) {
  std::vector<HyperParameter> given;
  if (model_presets().contains(model)) given = model_presets().get(model).values;
  for (const HyperParameter& option : own) {
    std::erase_if(given, [&](const HyperParameter& preset) { return preset.key == option.key; });
    given.push_back(option);
  }
  return given;
}

/// `key: ours and theirs` of each given hyper-parameter that makes a folder's weights unusable.
struct Contradiction {
  std::string key, ours, theirs;
};
std::vector<Contradiction> contradictions(const std::vector<HyperParameter>& given, const ModelDescription& stored) {
  const ModelDescription asked = describe_model(stored.family, given);
  std::vector<Contradiction> found;
  for (const HyperParameter& option : given) {
    const Tree *const ours = find_value(asked.hyper_parameters, option.key), *const theirs = find_value(
                                                                                 stored.hyper_parameters, option.key);
    if (ours != nullptr && theirs != nullptr && !may_differ(*asked.options.find(option.key), *ours, *theirs))
      found.push_back({option.key, lacuna::to_yaml(*ours), lacuna::to_yaml(*theirs)});
  }
  return found;
}

/// The folder as far as it describes a model of which it gives the backbone: the statistics of images.
ModelFolder as_whole(const ModelFolder& folder, const std::string& model) {
  ModelFolder whole{.config = folder.config, .library = folder.library, .model = model};
  whole.images = {.mean = folder.images.mean, .std = folder.images.std};
  whole.problem = tasks().get(model_families().get(family_of(model)).task).problem;
  return whole;
}

/// Takes the model of a classifier's folder as the backbone of the configuration's model, which has one. Returns the
/// folder as far as it describes the whole: the statistics of images.
std::optional<ModelFolder> take_backbone(Configuration& configuration, const Tree& root, const ModelFolder& folder,
                                         const ModelDescription& stored, Problems& problems) {
  Configuration::Model& model = configuration.model;
  const std::vector<HyperParameter> given = all_given(model.name, hyper_parameters_of(configuration));
  BackboneOptions backbone{.name = folder.model};
  if (const Tree* const said = find_value(given, "backbone")) {
    Problems none;
    if (!codec_of<BackboneOptions>().read(*said, &backbone, {}, "backbone", none).empty() || !none.empty() ||
        !is_known(backbone.name))
      return {};  // refused with the model's other options
  }
  const Location where =
      place_of(root, "model", find_value(model.options, "backbone") == nullptr ? "name" : "backbone");
  if (family_of(backbone.name) != stored.family) {
    problems.add(where, fmt::format("model {} has the backbone {}, but {} describes a {} (family {}); "
                                    "model.backbone={} takes the folder's model",
                                    model.name, backbone.name, folder.config.string(), folder.model, stored.family,
                                    folder.model));
    return {};
  }
  const std::vector<HyperParameter> of_backbone = all_given(backbone.name, backbone.values);
  for (const Contradiction& one : contradictions(of_backbone, stored))
    problems.add(where, fmt::format("the backbone {} of model {} has {} {}, but {} has {}", backbone.name, model.name,
                                    one.key, one.ours, folder.config.string(), one.theirs));
  const ModelDescription asked = describe_model(backbone.name, backbone.values);
  for (const HyperParameter& theirs : stored.hyper_parameters) {
    const bool of_whole = theirs.key == "image_size" || theirs.key == "num_classes" || theirs.key == "in_channels";
    const Tree* const ours = find_value(asked.hyper_parameters, theirs.key);
    if (!of_whole && find_value(of_backbone, theirs.key) == nullptr && ours != nullptr && *ours != theirs.value)
      backbone.values.push_back(theirs);
    if (theirs.key == "in_channels" && find_value(given, theirs.key) == nullptr) model.options.push_back(theirs);
  }
  std::erase_if(model.options, [](const HyperParameter& option) { return option.key == "backbone"; });
  model.options.push_back({"backbone", backbone.tree()});
  return as_whole(folder, model.name);
}

/// Whether `other`, without its head, is the model's backbone: it has all its tensors. Example: PVTv2 in SegFormer.
bool has_as_backbone(const Model& model, const Model& other) {
  std::set<std::string> theirs;
  for (const auto& [name, tensor] : state_of(other)) theirs.insert(name);
  const std::string path = std::string(model.backbone_path()) + ".";
  return std::ranges::all_of(state_of(model), [&](const NamedTensor& one) {
    if (!one.first.starts_with(path)) return true;
    if (model.backbone_names() == nullptr) return theirs.contains(one.first.substr(path.size()));
    return std::ranges::any_of(model.backbone_names()->every_name(one.first),
                               [&](const TensorNames::Place& place) { return theirs.contains(place.name); });
  });
}

/// The same as take_backbone for a model whose own hyper-parameters describe its backbone. Nothing where the folder's
/// model is no such backbone.
std::optional<ModelFolder> take_own_backbone(Configuration& configuration, const ModelFolder& folder,
                                             const ModelDescription& stored) {
  Configuration::Model& model = configuration.model;
  const std::vector<HyperParameter> given = all_given(model.name, hyper_parameters_of(configuration));
  const ModelContext meta{.device = Device::meta};
  const ModelDescription usual = describe_model(model.name, {});
  const std::unique_ptr<Model> shape = usual.problems.empty() ? usual.build(meta) : nullptr;
  if (!shape || shape->backbone_path().empty()) return {};
  const bool shares_options = shape->backbone_names() == nullptr;
  std::vector<HyperParameter> taken, all = given;
  for (const HyperParameter& theirs : stored.hyper_parameters) {
    const Field* const own = usual.options.find(theirs.key);
    const bool of_whole =
        theirs.key == "image_size" || theirs.key == "num_classes" || (!shares_options && theirs.key != "in_channels");
    if (own != nullptr && !of_whole && !own->fits_any_weights && find_value(given, theirs.key) == nullptr)
      taken.push_back(theirs);
  }
  all.insert(all.end(), taken.begin(), taken.end());
  const ModelDescription asked = describe_model(model.name, all);
  if (!asked.problems.empty()) return {};
  if (shares_options)
    for (const Contradiction& one : contradictions(given, stored))
      if (one.key != "image_size" && one.key != "num_classes") return {};
  if (!has_as_backbone(*asked.build(meta), *stored.build(meta))) return {};
  model.options.insert(model.options.end(), taken.begin(), taken.end());
  return as_whole(folder, model.name);
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
  if (!model.name.empty()) {
    if (!is_known(model.name)) return {};  // said already
    if (family_of(model.name) != stored.family) {
      if (describe_model(model.name, {}).options.find("backbone") != nullptr)
        return take_backbone(configuration, root, *folder, stored, problems);
      if (std::optional<ModelFolder> whole = take_own_backbone(configuration, *folder, stored)) return whole;
      problems.add(place_of(root, "model", "name"),
                   fmt::format("model.name is {}, but {} describes a {} (family {}); {}", model.name,
                               folder->config.string(), folder->model, stored.family, instead));
      return {};
    }
  }
  const std::vector<HyperParameter> given = all_given(model.name, hyper_parameters_of(configuration));
  for (const Contradiction& one : contradictions(given, stored))
    problems.add(place_of(root, "model", find_value(model.options, one.key) == nullptr ? "name" : one.key),
                 fmt::format("model.{} is {}, but {} has {}; {}", one.key, one.ours, folder->config.string(),
                             one.theirs, instead));
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

/// The crop mode that the model's task names; empty: it names none.
std::string_view crop_mode_of(const std::string& model) {
  const std::string family = model_presets().contains(model) ? model_presets().get(model).family : model;
  if (!model_families().contains(family)) return {};
  const std::string_view task = model_families().get(family).task;
  return tasks().contains(task) ? tasks().get(task).crop_mode : std::string_view();
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
  else if (const std::string_view usual = crop_mode_of(configuration.model.name);
           is_open("crop_mode") && !usual.empty())
    data.crop_mode = usual;
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
  folder.task = experiment.task.options;
  folder.data = experiment.data.source.settings;
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
