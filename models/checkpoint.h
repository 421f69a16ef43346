// A checkpoint: a folder with weights, optimizer state and the progress of the run, which appears whole or not at all.
#pragma once

#include "data/batch.h"
#include "models/task.h"
#include "optim/ema.h"
#include "optim/optimizer.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

class MemoryPolicy;

/// A model against a data set.
struct Evaluation {
  double loss = 0;                          // mean over the samples
  std::map<std::string, double> metrics{};  // of the task, by name
  std::int64_t samples = 0;
  std::vector<DamagedFile> left_out{};  // not among `samples`, and not kept in checkpoints
  bool operator==(const Evaluation&) const = default;
};

/// How far a run is. With its settings, this decides everything that comes after.
struct Progress {
  std::int64_t step = 0;              // optimizer steps done
  std::int64_t epochs_evaluated = 0;  // an epoch is evaluated after its last batch
  TaskTotals totals{};                // over the epoch under way, or over and not yet evaluated
  double train_loss = 0;              // mean of the last whole epoch, or of the one under way in the first
  std::int64_t evaluated = 0;         // the step of the last evaluation
  std::optional<Evaluation> last{}, best{};
  std::int64_t best_epoch = 0;  // in which the best was found, counted from 1
  // Settings that the order of samples and the random draws follow from: with others a run cannot be resumed.
  std::map<std::string, std::string> identity{};
};

inline constexpr std::string_view weights_file = "model.safetensors";
/// Heads that are trained on the features of a frozen model, which is in `weights_file` with the best of them.
inline constexpr std::string_view heads_file = "heads.safetensors";
inline constexpr std::string_view manifest_file = "checkpoint.json";
/// The running mean of the weights, under the same names; only where one is kept. A folder of its own, so that other
/// libraries load it as they load the checkpoint.
inline constexpr std::string_view average_folder = "average";
inline constexpr std::string_view average_file = "average/model.safetensors";
/// The file of the averaged weights in checkpoints of earlier versions.
inline constexpr std::string_view former_average_file = "average.safetensors";

/// The state that a step changes: the content of a checkpoint beside the progress.
struct TrainedState {
  Model& model;
  Optimizer& optimizer;
  MemoryPolicy& policy;
  WeightAverage* average;                      // null where none is kept
  std::map<std::string, std::string> texts{};  // files beside the weights and beside their average, as config.json
  const Model* classifier = nullptr;           // whose features `model`, the heads, is trained on; null: none
  Communicator& ranks = single_process();      // that train it together, each with a copy
  DType stored = DType::f32;                   // of weights in the checkpoint; bf16: with what a run needs to go on
};

/// Content of checkpoint.json.
struct Manifest {
  Progress progress;
  std::map<std::string, std::string> files;  // hash by name
};
/// Refuses another version of the format and impossible values. `origin` names the text in messages.
Manifest parse_manifest(std::string_view json, std::string_view origin);

/// Writes the folder: under a temporary name, every file synced, with a hash of each; then it is renamed. Of what is
/// there already, only a checkpoint is replaced. Of several ranks rank 0 writes it.
void write_checkpoint(const std::filesystem::path& folder, const TrainedState& state, const Progress& progress);
/// Replaces the progress in a checkpoint of the same step.
void update_progress(const std::filesystem::path& folder, const Progress& progress);

/// The manifest of a checkpoint; the files that it names are not checked.
Manifest read_manifest(const std::filesystem::path& folder);
/// Refuses a folder that is incomplete or whose files have changed since they were written.
Progress read_progress(const std::filesystem::path& folder);
bool is_whole(const std::filesystem::path& folder);
/// Whether something of the folder is missing or has changed; one that another version wrote is not damaged.
bool is_damaged(const std::filesystem::path& folder);

struct LoadedCheckpoint {
  Progress progress;
  std::int64_t started_anew = 0;  // parameters that are trained now and were frozen: their optimizer state is zero
};
/// The same, and sets the state from it. State of parameters that are frozen by now is left out, an average that is not
/// there begins with the weights; all other differences are listed and refused, before anything changes.
LoadedCheckpoint load_checkpoint(const std::filesystem::path& folder, const TrainedState& state);

}  // namespace lacuna
