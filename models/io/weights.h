// Weights in and out, under the names and in the shapes that the field shares (timm's).
#pragma once

#include "models/io/safetensors.h"
#include "models/model.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lacuna {

struct LoadOptions {
  std::string prefix = {};  // of the names to load; other names in the file are ignored
  bool new_head = false;    // whether the heads keep their initial values where the file has none, or others
};

struct LoadedWeights {
  bool new_head = false;          // whether the heads keep their initial values
  std::int64_t file_classes = 0;  // of the head in the file; 0: it has none under this name
};

/// Refuses a file of another model and lists every missing, unexpected and differently shaped name. Counters of batches
/// may be missing, as older files lack them.
LoadedWeights check_weights(const Model& model, const SafetensorsFile& file, const LoadOptions& options = {});

/// Checks, then sets every parameter and buffer from the file; values of another floating type are converted.
LoadedWeights load_weights(Model& model, const SafetensorsFile& file, const LoadOptions& options = {});

/// Parameters and buffers by name; the tensors are the model's own.
std::vector<NamedTensor> state_of(const Module& model);

/// Writes the state as a file that timm loads.
void save_weights(const Module& model, const std::filesystem::path& path,
                  const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace lacuna
