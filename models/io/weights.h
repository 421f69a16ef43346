// Weights in and out, under the names and in the shapes that the field shares (timm's).
#pragma once

#include "models/io/weight_files.h"
#include "models/model.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lacuna {

struct LoadOptions {
  std::string prefix = {};  // of the names to load, other names in the file are ignored; empty: found out
  bool new_head = false;    // whether the heads keep their initial values where the file has none, or others
  bool as_saved = false;    // whether names and shapes must be the model's own: no prefix, nothing resampled
};

struct LoadedWeights {
  bool new_head = false;                 // whether the heads keep their initial values
  std::int64_t file_classes = 0;         // of the head in the file; 0: it has none under this name
  std::string prefix{};                  // that was left out of the file's names, as `module.`
  std::vector<std::string> resampled{};  // tables of another size, each in words
};

/// Refuses a file of another model and lists every differently shaped, missing and unexpected name. A prefix that all
/// names share is left out. Counters of batches may be missing, as older files lack them, or of any type. A table of
/// positions (`pos_embed`) for another number of patches is resampled, as timm does.
LoadedWeights check_weights(const Model& model, const WeightFiles& file, const LoadOptions& options = {});

/// Checks, then sets every parameter and buffer from the file; values of another floating type are converted.
LoadedWeights load_weights(Model& model, const WeightFiles& file, const LoadOptions& options = {});

/// Parameters and buffers by name; the tensors are the model's own.
std::vector<NamedTensor> state_of(const Module& model);

/// Writes the state as a file that timm loads.
void save_weights(const Module& model, const std::filesystem::path& path,
                  const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace lacuna
