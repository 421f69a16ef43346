// A run of `lacuna train`: a trainer with a run folder, progress, metrics and a summary.
#pragma once

#include "apps/train/event_log.h"
#include "apps/train/feature_cache.h"
#include "apps/train/progress.h"
#include "apps/train/run_figures.h"
#include "apps/train/run_folder.h"
#include "apps/train/run_record.h"
#include "apps/train/setup.h"
#include "core/parallel.h"
#include "models/trainer.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lacuna::apps {

/// The result of steps on `meta` before a run; rank 0 has it.
struct Foreseen {
  std::string timeline;  // memory of a step, as JSON
  std::string frozen;    // the effect of freezing, for people; empty: nothing is frozen
};

class Run {
 public:
  /// Opens the data and builds the model; throws if either is wrong. `planned`: the experiment's setup on `meta`. A run
  /// that will be resumed from `checkpoint` does not read model.from again. `stream` gets the progress; null for none.
  /// All `ranks` call the same members, and rank 0 alone writes into the folder.
  Run(const Experiment& experiment, std::unique_ptr<Setup> planned,
      const std::optional<std::filesystem::path>& checkpoint, std::FILE* stream,
      Communicator& ranks = single_process());
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Resumes from `checkpoint`, one of the folder's. A damaged one is refused, and the last whole one before it
  /// offered.
  void resume(const RunFolder& folder, const std::filesystem::path& checkpoint);
  /// Trains to the end, or until a signal that an InterruptGuard has noted. Returns 0, or the signal once a checkpoint
  /// was written.
  int run(const RunFolder& folder);
  /// The same for the ranks that do not write.
  int run_beside();
  /// Content of summary.json; of rank 0.
  const nlohmann::ordered_json& summary() const { return summary_; }

 private:
  /// The input of steps and evaluations: the samples, or their features.
  Batches batches(Split split) const;
  void compute_features();
  /// The run so far, with the keys of summary.json: measured once, so that all who read it see the same.
  nlohmann::ordered_json summarize() const;
  /// Figures that the process before wrote down; nothing if the run went back to an earlier step since.
  std::optional<nlohmann::ordered_json> noted_figures() const;
  bool train();
  int train_and_summarize();
  bool is_writer() const { return ranks_.rank() == 0; }
  /// Lists the damaged files of the whole run on standard error, and counts them in the summary.
  std::string closing_line() const;
  void announce();
  /// Writes a line of metrics.jsonl.
  void note(const nlohmann::ordered_json& line);
  void note_step(const StepResult& result, double learning_rate, double seconds);
  /// Adds what a calibration found to the line of its step.
  void note_calibration(nlohmann::ordered_json& line);
  void note_epoch(const EpochResult& epoch);
  /// Seconds that the rest of the run takes, with its evaluations.
  double seconds_left() const;
  void show_evaluation(std::int64_t samples, std::int64_t of);
  /// The summary of a run that had reached its end before, its last evaluation done; nothing of any other.
  std::optional<nlohmann::ordered_json> finished(const RunFolder& folder) const;
  /// Whether the policy is calibrated, and was under the same settings as far as the folder's configuration tells.
  bool measures_as_recorded() const;
  /// Steps taken at the end of the run.
  std::int64_t steps_of_run() const;
  void save(bool is_best);
  [[noreturn]] void report_nonfinite(const StepResult& result);

  Communicator& ranks_;
  Experiment experiment_;
  ThreadCountScope threads_;  // the memory that a step needs depends on it
  std::optional<RunFolder> folder_;
  ProgressDisplay display_;
  DatasetPtr training_samples_, validation_samples_;
  Foreseen foreseen_;
  Setup setup_;
  std::optional<FeatureCache> features_;  // where heads are trained on them
  RunFigures figures_{experiment_, setup_};
  Trainer trainer_;
  std::map<std::string, std::string> texts_beside_weights_;     // in every checkpoint, by name
  std::int64_t started_anew_ = 0;                               // parameters without optimizer state in the checkpoint
  std::optional<std::pair<std::int64_t, std::int64_t>> saved_;  // step and evaluated step of the last checkpoint
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<EventLog> events_;  // null without output.tensorboard
  std::unique_ptr<RunRecord> record_;
  bool said_replaced_ = false, said_noisy_ = false;
  double step_seconds_ = 0, evaluation_seconds_ = 0;  // of all steps; of the last evaluation
  std::chrono::steady_clock::time_point evaluation_started_{};
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  nlohmann::ordered_json summary_;
};

}  // namespace lacuna::apps
