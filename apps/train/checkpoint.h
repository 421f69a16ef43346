// A checkpoint: a folder with weights, optimizer state and the place in the run, that appears whole or not at all.
#pragma once

#include "models/model.h"
#include "optim/ema.h"
#include "optim/optimizer.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace lacuna::apps {

struct Evaluation {
  double loss = 0;      // mean over the images
  double accuracy = 0;  // 0 to 1
  std::int64_t samples = 0;
  bool operator==(const Evaluation&) const = default;
};

/// Where a run stands. Everything else about it follows from the configuration and these counters.
struct Place {
  std::int64_t step = 0;              // optimizer steps done
  std::int64_t epochs_evaluated = 0;  // each epoch is, when its last batch is done
  // Sums over the epoch that is under way, or over and not yet evaluated.
  double loss_sum = 0;  // of the samples' losses
  std::int64_t correct = 0;
  std::int64_t samples = 0;  // the images of the epoch's order that it has seen
  double train_loss = 0;     // mean of the last whole epoch, or of the one under way in the first
  std::optional<Evaluation> last{}, best{};
  // Settings that give the counters their meaning, by key: under others the same place is another.
  std::map<std::string, std::string> units{};
};

inline constexpr std::string_view weights_file = "model.safetensors";
/// The running mean of the weights, under the same names; only where one is kept.
inline constexpr std::string_view average_file = "average.safetensors";

/// What a run changes, and a checkpoint holds beside the place.
struct TrainedState {
  Model& model;
  Optimizer& optimizer;
  MemoryPolicy& policy;
  WeightAverage* average;  // null where none is kept
};

/// What checkpoint.json says.
struct Manifest {
  Place place;
  std::map<std::string, std::string> files;  // hash by name
};
/// Refuses text that is not of this version of the format, or says what cannot be. `origin` names it in messages.
Manifest parse_manifest(std::string_view json, std::string_view origin);

/// Writes the folder, which must not be there: under a temporary name, every file synced, with a hash of each; then it
/// is renamed.
void write_checkpoint(const std::filesystem::path& folder, const TrainedState& state, const Place& place);
/// Writes the place anew into a checkpoint whose weights and optimizer state are those of the same step.
void update_place(const std::filesystem::path& folder, const Place& place);

/// What the manifest of a checkpoint says, whatever became of the files it names.
Manifest read_manifest(const std::filesystem::path& folder);
/// Refuses a folder that is incomplete or whose files have changed since they were written.
Place read_place(const std::filesystem::path& folder);
bool is_whole(const std::filesystem::path& folder);
/// Whether something of the folder is missing or has changed; one that another version wrote is not damaged.
bool is_damaged(const std::filesystem::path& folder);

struct LoadedCheckpoint {
  Place place;
  std::int64_t started_anew = 0;  // parameters that are trained now and were frozen: their optimizer state is zero
};
/// The same, and sets the state from it. State of parameters that are frozen by now is left out, an average that is not
/// there begins with the weights; all other differences are listed and refused.
LoadedCheckpoint load_checkpoint(const std::filesystem::path& folder, const TrainedState& state);

}  // namespace lacuna::apps
