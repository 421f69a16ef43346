// Folders of models as the field hands them on: weights and a config.json, in timm's convention or in transformers'.
// A family of models adds its tables in a file of its own (vit.cpp, …).
#pragma once

#include "models/image_preparation.h"
#include "models/io/weights.h"
#include "models/registry.h"
#include "nn/weight_formats.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The description of a folder's model.
struct ModelFolder {
  std::filesystem::path config{};  // its config.json
  Library library = Library::timm;
  std::string model{};                             // a preset or a family
  std::vector<HyperParameter> hyper_parameters{};  // `num_classes` and what else is said; the rest is the model's
  std::vector<std::string> labels{};               // by number; empty: not said
  std::vector<std::string> columns{};              // of the table of texts that it learned; two: pairs
  ImagePreparation images{};
  std::string problem{};                           // `problem_type`; empty: not said
  OptionValues task{}, data{};                     // settings of the loss and of labels, by our keys
  std::map<std::string, std::string> refused{};    // by head: what the folder says of it and Lacuna does not compute
  std::map<std::string, std::string> tokens{};     // special ones in config.json, each as JSON, to be written again
  std::map<std::string, std::string> tokenizer{};  // its files' text, by name, to be written beside the weights
  std::shared_ptr<const TensorNames> names{};      // of the weights; null: those of the models here
  std::int64_t label_offset = 0;                   // see LoadOptions
  DType stored = DType::f32;                       // of the weights that are written
  std::vector<std::string> notes{};                // what a user should know, each in words
};

/// Reads the config.json of `path`, a folder or a file in one. Nothing where there is none. Refuses one that describes
/// no model of Lacuna's, with what it lacks.
std::optional<ModelFolder> read_model_folder(const std::filesystem::path& path);

/// The same of its content; `origin` names it in messages.
ModelFolder describe_config(const nlohmann::ordered_json& config, const std::filesystem::path& origin);

/// Refuses a folder that says of the head of `values` what Lacuna does not compute.
void require_head(const ModelFolder& folder, const std::vector<HyperParameter>& values);

/// PEFT's `task_type` of a head of text models, or of the problem of one without a choice of heads; empty: none.
std::string_view peft_task_of(std::string_view head);
/// The head of a `task_type`; empty: it says none. Refuses a task that no model here has.
std::string_view head_of_peft_task(std::string_view task_type, std::string_view origin);

/// The name of the task that the folder's model solves: by its `problem`, or as transformers infers that from the head
/// and the number of outputs. Rejects a problem that no task has.
std::string task_of(const ModelFolder& folder);

struct FolderWeights {
  WeightFiles files;    // under our names
  LoadOptions options;  // as the folder's library has it
};
/// The weights of `path`, a folder or a file; `folder`: what read_model_folder says about it.
FolderWeights open_weights(const std::filesystem::path& path, const std::optional<ModelFolder>& folder);
/// The same of what the folder's library calls its tensors.
FolderWeights named_weights(WeightFiles files, const std::optional<ModelFolder>& folder);

/// The formats of a frozen model's weights: as `rules` (weight_formats) give them, else as its files have them; null:
/// all are f32.
std::shared_ptr<const WeightFormats> formats_of(const std::string& model,
                                                const std::vector<HyperParameter>& hyper_parameters,
                                                const FolderWeights& weights, const WeightRules& rules = {});

/// The text of the files beside weights in a library's convention, by name: config.json, and of a model of text the
/// tokenizer's. A model that timm has none of keeps our names.
std::map<std::string, std::string> texts_beside(const Model& model, const ModelFolder& description, Library library);
/// The text of the files beside weights under our names, by name. config.json: timm's convention for images,
/// transformers' for a family that only transformers has; a model that neither has keeps our names in timm's
/// convention, for Lacuna alone. Besides, those of the tokenizer and, for sentence embeddings, of
/// sentence-transformers.
std::map<std::string, std::string> files_beside_weights(const Model& model, const ModelFolder& description);
/// Writes them; names may have a folder in them.
void write_texts(const std::filesystem::path& folder, const std::map<std::string, std::string>& texts);
/// Why timm, or transformers, has no such model; empty: it has one.
std::string timm_refusal(const ModelFolder& description);
std::string transformers_refusal(const ModelFolder& description);

/// Makes the folder `path`, which must not exist, of what `fill` writes into the folder that it is given: whole or not
/// at all.
void write_new_folder(const std::filesystem::path& path, const std::function<void(const std::filesystem::path&)>& fill);

/// The state under the names and in the shapes of `library`, in the type that `description` says; each tensor is made
/// when it is asked for. Refuses a model that the library does not have.
std::vector<PendingTensor> state_for(const Model& model, const ModelFolder& description, Library library);

/// Writes a folder that the library loads, which must not exist: whole or not at all. Refuses a model that the library
/// does not have. Returns notes for the user.
std::vector<std::string> write_model_folder(const std::filesystem::path& path, const Model& model,
                                            const ModelFolder& description, Library library);

}  // namespace lacuna
