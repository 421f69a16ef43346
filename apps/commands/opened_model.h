// A trained model with all that belongs to it: from a run, one of its checkpoints, or a folder of timm, transformers or
// PEFT. No training data are needed.
#pragma once

#include "apps/train/run_folder.h"
#include "apps/train/setup.h"
#include "core/tree.h"
#include "data/dataset.h"
#include "data/transforms.h"
#include "models/folders/folder.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lacuna::apps {

/// The run that `from` is, or that a checkpoint belongs to; nothing: `from` is a folder with a model.
std::optional<CheckpointPath> run_of(const std::filesystem::path& from);

/// The configuration of a run, in f32 and without its memory section.
Experiment experiment_of(const RunFolder& run);

/// Calls `open` with a checkpoint of a run, whose files are those that were written: the named one, or the best. A
/// training run may remove the checkpoint meanwhile; then the call is repeated with the one that is there now.
void with_checkpoint(const CheckpointPath& point, const std::function<void(const std::filesystem::path&)>& open);

struct OpenedModel {
  std::optional<RunFolder> run{};   // nothing: the model is from a folder
  Tree configuration{};             // of the run
  std::filesystem::path weights{};  // a file or folder
  std::filesystem::path texts{};    // the folder that may hold a tokenizer; empty: none
  ModelFolder folder{};             // the config.json beside the weights, or the same from the run's configuration
  std::unique_ptr<Model> model{};   // with adapters, if it was trained with them

  /// The task that the model was trained for, on texts of a vocabulary.
  std::unique_ptr<Task> task(const Vocabulary& vocabulary = {}) const;
  /// Makes the model's inputs of single images, prepared as in evaluation, or of texts, cut off after `max_length`
  /// tokens; 0: as many as the model takes.
  std::unique_ptr<const InputReader> reader(std::int64_t max_length) const;
  /// How images are prepared as in evaluation, where it takes images.
  TransformOptions image_options() const;
  /// Whether it makes them of images.
  bool reads_images() const;
};

/// The model that `folder` describes, in f32 and not training, with these weights.
std::unique_ptr<Model> make_described(const ModelFolder& folder, const FolderWeights& weights, Device device);

/// The library in whose format a model is written where none is named: transformers where timm has no such family.
std::string usual_format(const OpenedModel& opened);
/// The description that is written beside the model's weights in `dtype` (f32, bf16 or f16), with the tokenizer's
/// texts.
ModelFolder description_to_write(const OpenedModel& opened, const std::string& dtype);
/// The model that is written: a copy into which its adapters are merged, or itself where it has none.
std::shared_ptr<const Model> merged_model(const OpenedModel& opened);
/// Writes a folder of timm or transformers (`format`; empty: the usual one). Returns a description of the folder.
nlohmann::ordered_json write_model(const OpenedModel& opened, const std::filesystem::path& out,
                                   const std::string& format, const std::string& dtype);

/// Opens the model that `from` names, in f32 and not training. `base`: where the base of an adapter lies now; empty:
/// where the adapter says.
OpenedModel open_model(const std::filesystem::path& from, Device device, const std::filesystem::path& base = {});

}  // namespace lacuna::apps
