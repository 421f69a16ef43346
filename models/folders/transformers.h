// transformers' convention: `model_type` and its sizes.
#pragma once

#include "models/folders/folder.h"
#include "models/folders/values.h"

#include <functional>

namespace lacuna {

/// A key of config.json that says a setting of the task, or of the data.
struct SettingKey {
  const char* theirs;
  OptionValues ModelFolder::*section;
  std::string_view ours;
  double usual;  // what transformers and Lacuna have where nothing is said
};

/// A `model_type` of transformers.
struct TransformersType {
  std::string_view family;        // of the models that it is read as
  std::string_view architecture;  // the class with a head, as `ViTForImageClassification`
  TensorNames names;              // empty: they are ours
  /// The hyper-parameters that a config.json says, without the classes.
  std::function<std::vector<HyperParameter>(const ConfigReader& config)> read;
  /// Adds what config.json says beside classes and type. Returns why the type has no such model; empty: it has one.
  std::function<std::string(const Options& options, nlohmann::ordered_json& config)> write;
  /// Notes for the user about a model that is read.
  std::function<std::vector<std::string>(const Options& options)> notes{};
  /// The class of a type with several heads, in place of `architecture`.
  std::function<std::string(const Options& options)> class_of{};
  std::string_view problem{};  // of its task, where config.json says none
  std::vector<SettingKey> settings{};
  /// The names of a model, where options decide on them, in place of `names`.
  std::function<const TensorNames*(const Options& options)> names_of{};
  /// Layers that PEFT gives LoRA where none are named (its TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING), under
  /// our names; empty: it has none for the type.
  std::vector<std::string> adapter_targets{};
  /// The class that prepares images and squashes them; empty: ViTImageProcessor, or BitImageProcessor, which crops.
  std::string_view image_processor{};
};
Registry<TransformersType>& transformers_types();
struct RegisterTransformersType {
  RegisterTransformersType(std::string_view model_type, TransformersType type) {
    transformers_types().add(model_type, std::move(type));
  }
};

/// The names of each type that is read as a model of `family`.
std::vector<TensorNames> tensor_names_of(std::string_view family);

/// The layers of `model` that get an adapter where none are named: PEFT's for its type, or `all-linear` where PEFT has
/// none.
std::vector<std::string> usual_adapter_targets(const ModelDescription& model);

/// `hidden_act` of a config.json as our `activation`, and back.
std::string activation_of(const ConfigReader& config);
std::string hidden_act_of(const std::string& activation);

ModelFolder read_transformers_config(const nlohmann::ordered_json& json, const std::filesystem::path& file);

/// A folder's files in transformers' convention.
struct TransformersFiles {
  std::map<std::string, std::string> texts;  // beside the weights, by name
  const TensorNames* names = nullptr;
  std::vector<std::string> notes{};  // for the user
};
/// Refuses a model that transformers does not have.
TransformersFiles transformers_files(const Model& model, const ModelFolder& description);

}  // namespace lacuna
