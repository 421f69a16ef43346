// A run of `lacuna train`: a trainer with a run folder, progress, metrics and a summary.
#pragma once

#include "apps/train/event_log.h"
#include "apps/train/measure.h"
#include "apps/train/progress.h"
#include "apps/train/run_folder.h"
#include "apps/train/run_record.h"
#include "apps/train/training.h"
#include "core/parallel.h"
#include "models/trainer.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace lacuna::apps {

class TrainingRun {
 public:
  /// Opens the data and builds the model; throws if either is wrong. A run that will be `resumed` does not read
  /// model.from again. `stream` gets the progress; null for none.
  TrainingRun(const Configuration& resolved, bool resumed, std::FILE* stream);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Resumes from `checkpoint`, one of the folder's. A damaged one is refused, and the last whole one before it
  /// offered.
  void resume(const RunFolder& folder, const std::filesystem::path& checkpoint);
  /// Trains to the end, or until a signal that an InterruptGuard has noted. Returns 0, or the signal once a checkpoint
  /// was written.
  int run(const RunFolder& folder);
  /// Content of summary.json.
  const nlohmann::ordered_json& summary() const { return summary_; }

 private:
  /// Takes a step, and notes its memory where it is the highest so far.
  StepOutcome step(std::vector<Batch> batch, std::int64_t number, double learning_rate);
  /// The run so far, with the keys of summary.json: measured once, so that all who read it see the same.
  nlohmann::ordered_json summarize() const;
  /// Figures of the steps: of this process or, if it takes none, of the one that took the last step.
  nlohmann::ordered_json measured() const;
  /// Figures that the process before wrote down; nothing if the run went back to an earlier step since.
  std::optional<nlohmann::ordered_json> noted_figures() const;
  int train_and_summarize();
  std::string closing_line() const;
  void announce();
  /// Writes a line of metrics.jsonl.
  void note(const nlohmann::ordered_json& line);
  void note_step(const TrainResult& result, double learning_rate, double seconds);
  void note_epoch(const EpochResult& epoch);
  /// The summary of a run that had reached its end before, its last evaluation done; nothing of any other.
  std::optional<nlohmann::ordered_json> finished(const RunFolder& folder) const;
  /// Seconds of each calibration: of this process, or before its first one the last of the process before.
  const std::vector<double>& measurements() const {
    return measuring_seconds_.empty() ? measured_before_ : measuring_seconds_;
  }
  /// Whether the policy is calibrated, and was under the same settings as far as the folder's configuration tells.
  bool measures_as_recorded() const;
  /// Steps taken at the end of the run.
  std::int64_t steps_of_run() const;
  void save(bool is_best);
  [[noreturn]] void report_nonfinite(const TrainResult& result);

  Configuration configuration_;
  ThreadCountScope threads_;  // the memory that a step needs depends on it
  std::optional<RunFolder> folder_;
  ProgressDisplay display_;
  DatasetPtr training_samples_, validation_samples_;
  Training training_;
  Trainer trainer_;
  std::int64_t started_anew_ = 0;                               // parameters without optimizer state in the checkpoint
  std::optional<std::pair<std::int64_t, std::int64_t>> saved_;  // step and evaluated step of the last checkpoint
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<EventLog> events_;  // null without output.tensorboard
  std::unique_ptr<RunRecord> record_;
  StepOutcome last_step_;
  Measurement highest_step_{};        // memory of the step with the highest peak
  std::int64_t most_held_ = 0;        // bytes of tensors at any moment until the last step began
  std::int64_t saved_bytes_ = 0;      // the most held for backward by any step
  BytesByPath saved_by_path_;         // the same
  std::vector<double> step_seconds_;  // of each step, and of each calibration in one
  std::vector<double> measuring_seconds_;
  std::vector<double> measured_before_;  // the last calibration before this process, if it had the same settings
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  nlohmann::ordered_json summary_;
};

}  // namespace lacuna::apps
