// A whole training run: epochs, evaluation, checkpoints, metrics; begun anew or gone on with.
#pragma once

#include "apps/progress.h"
#include "apps/run_folder.h"
#include "apps/training.h"
#include "data/loader.h"
#include "optim/schedule.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <span>
#include <vector>

namespace lacuna::apps {

class Trainer {
 public:
  /// Opens the data and builds the model: what is wrong with either is found here. A run that will be `resumed` does
  /// not read model.from again. `stream` gets the progress; null for none.
  Trainer(const Configuration& resolved, bool resumed, std::FILE* stream);

  /// Goes on from the folder's latest checkpoint, to the very bits of a run that was never stopped.
  void resume(const RunFolder& folder);
  /// Trains to the end. Returns 0, or the signal that stopped it once a checkpoint was written.
  int run(const RunFolder& folder);
  /// What `run` wrote to summary.json.
  const nlohmann::ordered_json& summary() const { return summary_; }

 private:
  /// The run so far, with the keys of summary.json: measured once, so that all who read it see the same.
  nlohmann::ordered_json summarize() const;
  /// The settings that the place is counted in.
  std::map<std::string, std::string> units() const;
  void announce();
  void take_step(Loader& loader);
  void note_step(const StepOutcome& outcome, double learning_rate, double seconds);
  /// Evaluates where an epoch ends or the run does. False where a signal came in between.
  bool evaluate_if_due();
  bool at_end() const { return place_.step >= last_step_; }
  std::int64_t whole_epochs() const { return place_.step / steps_per_epoch_; }
  void save(bool is_best);
  [[noreturn]] void report_nonfinite(std::span<const MicroBatch> batch, const StepOutcome& outcome);

  Configuration configuration_;
  std::optional<RunFolder> folder_;
  ProgressDisplay display_;
  std::shared_ptr<const Dataset> training_images_, validation_images_;
  Training training_;
  std::int64_t steps_per_epoch_;
  std::int64_t last_step_;
  Schedule schedule_;
  Place place_;
  std::int64_t started_anew_ = 0;                               // parameters without optimizer state in the checkpoint
  std::optional<Evaluation> final_evaluation_;                  // of a run that ends within an epoch
  std::optional<std::pair<std::int64_t, std::int64_t>> saved_;  // step and epochs evaluated of the last checkpoint
  std::unique_ptr<MetricsLog> metrics_;
  std::int64_t saved_bytes_ = 0;  // the most held for backward by any step
  BytesByPath saved_by_path_;     // the same
  std::vector<double> step_seconds_;
  nlohmann::ordered_json summary_;
};

}  // namespace lacuna::apps
