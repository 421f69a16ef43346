// Training steps of a model on a task: the loss of each micro-batch, the calibration of an adaptive policy, the update.
#pragma once

#include "models/checkpoint.h"
#include "models/task.h"
#include "optim/train_step.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

/// Results of a step.
struct TrainResult : StepResult {
  TaskTotals totals{};                  // of the batch; without values on `meta`
  double calibration_seconds = 0;       // 0 where the step did not calibrate
  std::vector<DamagedFile> replaced{};  // of its batch
  std::string not_captured{};           // why this step could not be captured, and those after it are not
};

struct TaskStepOptions {
  TrainStepOptions step{};
  bool input_gradients = false;  // of all floating-point inputs: for a model that is attacked or explained
  /// Whether steps on cuda are captured and replayed (TrainStep::capture): the third one of the same shapes is, and
  /// those after it are replays. A step that cannot be captured runs as before, and so do those of a task that reads
  /// its batch on the host, with an observer, that calibrate, and of several ranks.
  bool graph = true;
};

struct TaskStepHooks {
  std::function<void(Tape& tape)> after_forward{};  // of each micro-batch; may be null
  Observer* observer = nullptr;
};

class TaskStep {
 public:
  /// The objects in `state`, and `task`, must outlive it.
  TaskStep(const TrainedState& state, const Task& task, const TaskStepOptions& options = {});

  /// Step number `number` of the run over the micro-batches of one batch (see TrainStep); of several ranks, over this
  /// one's part of it. A batch of one part that is moved here is freed as soon as forward needs it no longer.
  TrainResult run(std::vector<Batch> batch, std::int64_t number, double learning_rate, const TaskStepHooks& hooks = {});
  /// The loss [] of a micro-batch, recorded where a tape is recording; adds to `totals` where given.
  Variable loss(Batch batch, RunningTotals* totals = nullptr);
  /// Calibrates `policy`, if it is adaptive and that is due: in a pass over a sixth of the batch, or by draws over all
  /// of it. Gradients of the parameters and running statistics stay as they are. Returns whether it has.
  bool calibrate(const Batch& batch, MemoryPolicy& policy);
  ErrorMeasure error_measure() const { return step_.error_measure(); }
  /// Memory that a captured step holds between steps; 0 if there is none.
  std::int64_t captured_bytes() const { return step_.captured_bytes(); }

 private:
  /// Everything that a captured step depends on beside what its tensors hold; nothing: it is not to be captured.
  std::optional<std::string> signature_of(const std::vector<Batch>& batch, const TaskStepHooks& hooks) const;
  /// Throws Error (the input's fault) for labels that the task has no class for.
  void check_numbers(const Batch& batch) const;
  /// Captures or replays a step, if that is possible; `problem` says why it was not.
  std::optional<TrainResult> run_graph(const std::vector<Batch>& batch, std::int64_t number, double learning_rate,
                                       const TaskStepHooks& hooks, std::string& problem);

  void forget_graph();

  TrainedState state_;
  const Task& task_;
  TaskStepOptions options_;
  TrainStep step_;

  std::optional<std::string> signature_;   // of the steps before
  std::int64_t alike_ = 0;                 // steps in a row with that signature
  std::vector<Batch> inputs_;              // what a captured step reads
  std::unique_ptr<RunningTotals> totals_;  // what it adds to
};

}  // namespace lacuna
