// Training of a model on a data set: epochs, evaluation, checkpoints, resume. The command `lacuna train` is a user.
//
//   Trainer trainer({*model, *task, *optimizer, *policy}, train_batches, validation_batches,
//                   {.epochs = 10, .learning_rate = schedule});
//   if (resume) trainer.resume(folder);
//   trainer.run({.after_epoch = [&](const EpochResult& epoch) { ... }});
//   trainer.save(next_folder);
#pragma once

#include "data/loader.h"
#include "models/task_step.h"
#include "optim/schedule.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

/// Loss and metrics over one epoch of `batches`, without training. Running sums stay on the device; the host reads them
/// once, at the end. Nothing if `stop` (may be null) answers true between two batches. Several ranks evaluate their
/// parts of each batch, with the running statistics of rank 0, and have the same result, that of one process whose
/// batches are those parts; `stop` answers the same on all.
std::optional<Evaluation> evaluate(Model& model, const Task& task, const Batches& batches, int workers = 1,
                                   const std::function<bool()>& stop = {}, Communicator& ranks = single_process());

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;           // end after this many steps of the optimizer; 0: `epochs` alone counts
  std::int64_t evaluate_every = 0;  // steps between evaluations within an epoch; 0: none
  std::int64_t accumulate = 1;      // micro-batches of a step
  int workers = 1;                  // threads that prepare batches
  Schedule learning_rate{};         // by step
  TrainStepOptions step{};          // not used where the caller takes the steps
  std::string best_by{};  // a metric of the task, or `loss`: which evaluation is the best; empty: by the first metric
  std::int64_t patience = 0;                      // end after this many epochs without a better evaluation; 0: never
  std::map<std::string, std::string> identity{};  // a run with other values cannot be resumed
};

/// The metric by which evaluations are compared.
struct BestBy {
  std::string name;  // of a metric, or `loss`
  bool higher_is_better = true;
  /// NaN where the evaluation has no such metric.
  double value(const Evaluation& evaluation) const;
};
/// By a metric of the task, or the loss; empty: the first metric. Other names are the input's fault.
BestBy best_by(const std::string& name, const Task& task);

/// After an evaluation: at the end of an epoch, or within one.
struct EpochResult {
  std::int64_t epoch = 0;                       // counted from 1
  bool whole = true;                            // false: within it
  TaskTotals train;                             // of its steps so far
  Evaluation validation;                        // of the average of the weights where one is kept
  std::optional<Evaluation> without_average{};  // of the weights themselves, where an average is kept
  bool is_best = false;                         // the best of the run so far, by TrainerOptions::best_by
  double seconds = 0;                           // of the evaluation
};

/// Called while a run goes on. Any may be null. Their errors end the run.
struct TrainerEvents {
  /// Asked between steps: true ends the run there, on any rank that of all.
  std::function<bool()> stop{};
  /// The loss or the gradient of a step is not finite; nothing was counted. The run fails if this returns.
  std::function<void(const TrainResult&)> nonfinite{};
  std::function<void(const TrainResult&, double learning_rate, double seconds)> after_step{};
  std::function<void(const EpochResult&)> after_epoch{};
};

class Trainer {
 public:
  /// Takes a step: number `number` of the run over the micro-batches of one batch.
  using Step = std::function<TrainResult(std::vector<Batch> batch, std::int64_t number, double learning_rate)>;

  /// `state` and `task` outlive the trainer. The batches of `train` are full ones. `step`: null for TaskStep. Of
  /// several ranks all begin with the weights of rank 0, and all call the same members; a model that differs is
  /// refused.
  Trainer(const TrainedState& state, const Task& task, Batches train, Batches validation, TrainerOptions options,
          Step step = {});

  /// Trains to the end, its evaluation included, or until `events.stop`: returns whether the end was reached.
  bool run(const TrainerEvents& events = {});

  /// Writes a checkpoint to the folder, which holds nothing else; of several ranks rank 0 does. Allowed in `after_step`
  /// and `after_epoch` too.
  void save(const std::filesystem::path& folder) const;
  /// Resumes from a checkpoint: the run goes on with the same bits as one that was never stopped. Refuses a checkpoint
  /// that is damaged, of another model or optimizer, or of a run with another `identity`. Returns the number of
  /// parameters that were frozen then: their optimizer state starts anew.
  std::int64_t resume(const std::filesystem::path& folder);

  const Progress& progress() const { return progress_; }
  std::int64_t steps_per_epoch() const { return train_.count(); }
  /// Whether the epoch under way has no whole batch left. It counts as done once it is evaluated.
  bool epoch_over() const { return progress_.totals.samples + train_.size() > train_.samples(); }
  std::int64_t whole_epochs() const { return progress_.epochs_evaluated + (epoch_over() ? 1 : 0); }
  bool at_end() const;
  /// Whether no better evaluation came for TrainerOptions::patience epochs.
  bool out_of_patience() const;
  const BestBy& best_by() const { return best_by_; }
  /// The learning rate of the next step. With another batch size than before, the schedule goes on at the same fraction
  /// of the same epoch.
  double learning_rate() const;
  /// The micro-batches of the next step, read once more.
  std::vector<Batch> next_batch() const;

 private:
  /// Evaluates if an epoch or the run is over, or an evaluation within the epoch is due. False if it was stopped.
  bool evaluate_if_due(const TrainerEvents& events);
  void take_step(Loader& loader, const TrainerEvents& events);
  LoaderOptions loader_options() const;
  bool is_better(const Evaluation& evaluation) const;
  bool is_stopped(const TrainerEvents& events) const;

  TrainedState state_;
  const Task& task_;
  Batches train_, validation_;
  TrainerOptions options_;
  BestBy best_by_;
  Step step_;
  Progress progress_;
};

}  // namespace lacuna
