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
  std::string prefix = {};  // of the names in the file; others are somebody else's
  bool new_head = false;    // a classifier that is not the model's, or none, leaves the model's own initial values
};

/// What became of the classifier.
struct LoadedWeights {
  bool new_head = false;          // it starts anew, weight and bias
  std::int64_t file_classes = 0;  // of the classifier in the file; 0: it has none under this name
};

/// Refuses a file that is not this model's: every missing, unexpected and differently shaped name is listed. Counters
/// of batches may be missing, as older files lack them.
LoadedWeights check_weights(const Model& model, const SafetensorsFile& file, const LoadOptions& options = {});

/// Checks, then sets every parameter and buffer from the file; values of another floating type are converted.
LoadedWeights load_weights(Model& model, const SafetensorsFile& file, const LoadOptions& options = {});

/// Parameters and buffers by name; the tensors are the model's own.
std::vector<NamedTensor> state_of(const Module& model);

/// Writes the state as a file that timm loads.
void save_weights(const Module& model, const std::filesystem::path& path,
                  const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace lacuna
