// A whole training run: epochs, evaluation, checkpoints, metrics; begun anew or gone on with.
#pragma once

#include "apps/train/progress.h"
#include "apps/train/run_folder.h"
#include "apps/train/training.h"
#include "data/loader.h"
#include "optim/schedule.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lacuna::apps {

class Trainer {
 public:
  /// Opens the data and builds the model: what is wrong with either is found here. A run that will be `resumed` does
  /// not read model.from again. `stream` gets the progress; null for none.
  Trainer(const Configuration& resolved, bool resumed, std::FILE* stream);

  /// Goes on from `checkpoint`, one of the folder's, to the very bits of a run that was never stopped. One that is
  /// damaged is refused, and the last whole one before it offered.
  void resume(const RunFolder& folder, const std::filesystem::path& checkpoint);
  /// Trains to the end, or until a signal that an InterruptGuard has noted. Returns 0, or the signal once a checkpoint
  /// was written.
  int run(const RunFolder& folder);
  /// What `run` wrote to summary.json.
  const nlohmann::ordered_json& summary() const { return summary_; }

 private:
  /// The run so far, with the keys of summary.json: measured once, so that all who read it see the same.
  nlohmann::ordered_json summarize() const;
  /// What of it the steps tell: those of this process or, where it takes none, of the one that took the last step.
  nlohmann::ordered_json measured() const;
  /// What that process wrote down; nothing where the run went back to an earlier step since.
  std::optional<nlohmann::ordered_json> noted_figures() const;
  /// The settings that give the place its meaning.
  std::map<std::string, std::string> units() const;
  LoadedCheckpoint load(const RunFolder& folder, const std::filesystem::path& checkpoint);
  void announce();
  void take_step(Loader& loader);
  void note_step(const StepOutcome& outcome, double learning_rate, double seconds);
  /// Evaluates where an epoch ends or the run does. False where a signal came in between.
  bool evaluate_if_due();
  /// Whether the epoch under way has no whole batch left. It counts as the next one once it is evaluated.
  bool epoch_over() const;
  std::int64_t whole_epochs() const { return place_.epochs_evaluated + (epoch_over() ? 1 : 0); }
  /// The summary of a run that had reached its end before, its last evaluation done; nothing of any other.
  std::optional<nlohmann::ordered_json> finished(const RunFolder& folder) const;
  bool at_end() const;
  /// What measurements take: this process's, or before the first of them the last one's.
  const std::vector<double>& measurements() const {
    return measuring_seconds_.empty() ? measured_before_ : measuring_seconds_;
  }
  /// Whether the policy measures, and did under the same settings as far as the folder's configuration tells.
  bool measures_as_recorded() const;
  /// The step of a run that has had these batches from its start: with another batch size the schedule goes on at the
  /// same share of the same epoch.
  std::int64_t scheduled_step() const;
  void save(bool is_best);
  TrainedState state() { return {training_.model(), training_.optimizer(), training_.policy(), training_.average()}; }
  /// Of a loader that goes on where the run stands: with the batch of the step under way, the last one once it is done.
  LoaderOptions loader_options() const;
  [[noreturn]] void report_nonfinite(const StepOutcome& outcome);

  Configuration configuration_;
  std::optional<RunFolder> folder_;
  ProgressDisplay display_;
  std::shared_ptr<const Dataset> training_images_, validation_images_;
  Training training_;
  std::int64_t steps_per_epoch_;  // images that do not fill a batch are left out
  Schedule schedule_;
  Place place_;
  std::int64_t started_anew_ = 0;                               // parameters without optimizer state in the checkpoint
  std::optional<Evaluation> final_evaluation_;                  // of a run that ends within an epoch
  std::optional<std::pair<std::int64_t, std::int64_t>> saved_;  // step and epochs evaluated of the last checkpoint
  std::unique_ptr<MetricsLog> metrics_;
  std::int64_t saved_bytes_ = 0;      // the most held for backward by any step
  BytesByPath saved_by_path_;         // the same
  std::vector<double> step_seconds_;  // of each step, and of each measurement in one
  std::vector<double> measuring_seconds_;
  std::vector<double> measured_before_;  // the last measurement before this process, if it was under the same settings
  nlohmann::ordered_json summary_;
};

}  // namespace lacuna::apps
