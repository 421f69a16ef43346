// Training steps of a model on a task: the loss of each micro-batch, the calibration of an adaptive policy, the update.
#pragma once

#include "models/checkpoint.h"
#include "models/task.h"
#include "optim/train_step.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace lacuna {

/// Results of a step.
struct TrainResult : StepResult {
  TaskTotals totals{};                  // of the batch; without values on `meta`
  double calibration_seconds = 0;       // 0 where the step did not calibrate
  std::vector<DamagedFile> replaced{};  // of its batch
};

struct TaskStepOptions {
  TrainStepOptions step{};
  bool input_gradients = false;  // of all floating-point inputs: for a model that is attacked or explained
};

struct TaskStepHooks {
  std::function<void(Tape& tape)> after_forward{};  // of each micro-batch; may be null
  Observer* observer = nullptr;
};

class TaskStep {
 public:
  /// What `state` refers to and `task` outlive it.
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

 private:
  TrainedState state_;
  const Task& task_;
  TaskStepOptions options_;
  TrainStep step_;
};

}  // namespace lacuna
