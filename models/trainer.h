// Training of a model on a data set: epochs, evaluation, checkpoints, resume. The command `lacuna train` is a user.
//
//   Trainer trainer({*model, *task, *optimizer, *policy}, train_batches, validation_batches,
//                   {.epochs = 10, .learning_rate = schedule});
//   if (resume) trainer.resume(folder);
//   trainer.run({.after_epoch = [&](const EpochResult& epoch) { ... }});
//   trainer.save(next_folder);
#pragma once

#include "autograd/sensitivity.h"
#include "core/device_numbers.h"
#include "data/loader.h"
#include "models/checkpoint.h"
#include "models/task.h"
#include "optim/clip.h"
#include "optim/gradient_exchange.h"
#include "optim/schedule.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

class Observer;
class OptimizerStep;
struct StepReport;
class Tape;

/// Loss and metrics over one epoch of `batches`, without training. Running sums stay on the device; the host reads them
/// once, at the end. Between two batches `stop` (may be null) gets the number of samples that are done; nothing if it
/// answers true. Several ranks evaluate their
/// parts of each batch, with the running statistics of rank 0, and have the same result, that of one process whose
/// batches are those parts; `stop` answers the same on all.
std::optional<Evaluation> evaluate(Model& model, const Task& task, const Batches& batches, int workers = 1,
                                   const std::function<bool(std::int64_t samples)>& stop = {},
                                   Communicator& ranks = single_process());

struct StepOptions {
  Clipping clipping{};
  bool in_backward = false;      // apply each gradient as soon as it is complete (see step_in_backward)
  std::uint64_t seed = 1;        // of the step's random draws
  bool shard_gradients = false;  // each rank keeps only the gradients of the parameters that it updates
  ExchangeOptions exchange{};
  bool input_gradients = false;  // of all floating-point inputs: for a model that is attacked or explained
  /// Captures steps on cuda and replays them (core/device_graph.h): the third step of the same shapes is captured,
  /// later ones are replays with the same bits. What the host reads of a batch (Task::is_read_by_kernels), as where
  /// sequences begin, has to stay the same, too. Not captured: steps with an observer, that calibrate, and of a policy
  /// that waits on the host.
  bool graph = true;
  std::int64_t budget = 0;  // bytes of all tensors with those that a captured step holds; 0: no limit
};

struct StepHooks {
  std::function<void(Tape& tape)> after_forward{};  // of each micro-batch; may be null
  Observer* observer = nullptr;
};

struct StepResult {
  double loss = 0;                      // of the whole batch; 0 on `meta`
  double gradient_norm = 0;             // of all gradients together, before clipping; 0 on `meta`
  std::string nonfinite{};              // a parameter whose gradient is not finite; empty: none
  bool updated = false;                 // whether any parameter was
  double loss_scale = 1;                // of this step
  bool overflowed = false;              // f16 gradients overflowed: nothing was updated, and the loss scale was halved
  std::int64_t saved_bytes = 0;         // held for backward, of the micro-batch with the most
  TaskTotals totals{};                  // of the batch; without values on `meta`
  double calibration_seconds = 0;       // 0 where the step did not calibrate
  std::vector<DamagedFile> replaced{};  // of its batch
  std::string not_captured{};           // why this step could not be captured, and those after it are not
  /// Whether the run can go on.
  bool finite() const { return std::isfinite(loss) && (overflowed || std::isfinite(gradient_norm)); }
};

struct TrainerOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;           // end after this many steps of the optimizer; 0: `epochs` alone counts
  std::int64_t evaluate_every = 0;  // steps between evaluations within an epoch; 0: none
  std::int64_t accumulate = 1;      // micro-batches of a step
  int workers = 1;                  // threads that prepare batches
  Schedule learning_rate{};         // by step
  StepOptions step{};
  std::string best_by{};  // a metric of the task, or `loss`: which evaluation is the best; empty: by the first metric
  std::int64_t patience = 0;                      // end after this many epochs without a better evaluation; 0: never
  std::map<std::string, std::string> identity{};  // a run with other values cannot be resumed
  std::map<std::string, std::string> recorded{};  // stands beside the identity in checkpoints and is not compared
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
  std::function<void()> before_step{};
  StepHooks hooks{};
  /// Asked between steps: true ends the run there, on any rank that of all.
  std::function<bool()> stop{};
  /// The loss or the gradient of a step is not finite; nothing was counted. The run fails if this returns.
  std::function<void(const StepResult&)> nonfinite{};
  std::function<void(const StepResult&, double learning_rate, double seconds)> after_step{};
  /// Whether `after_step` reads or saves the state that training is in after so many steps; null: after each. After
  /// others a captured step may be told once the next one runs, so that the device does not wait for the host; `stop`
  /// is asked before it is told.
  std::function<bool(std::int64_t steps)> needs_state{};
  /// During an evaluation: samples that are done, and all.
  std::function<void(std::int64_t samples, std::int64_t of)> evaluating{};
  std::function<void(const EpochResult&)> after_epoch{};
};

class Trainer {
 public:
  /// Takes steps on batches that the caller makes. `state` and `task` outlive the trainer.
  Trainer(const TrainedState& state, const Task& task, const StepOptions& options = {});
  /// Trains epochs of `train`, whose batches are full ones. Several ranks begin with the weights of rank 0 and call the
  /// same members; a model that differs is refused.
  Trainer(const TrainedState& state, const Task& task, Batches train, Batches validation, TrainerOptions options);
  ~Trainer();

  /// Trains on the micro-batches of one batch; of several ranks, on this one's part of it. Random draws depend on
  /// `number`, the number of the step in the run. Loss and gradients are those of the whole batch of all ranks, however
  /// it is cut: a part counts by its weight (Task::weight). If a gradient is not finite, no parameter is updated; in
  /// backward, parameters before it may be. Gradients are released. A batch of one part that is moved here is freed as
  /// soon as forward needs it no longer.
  StepResult step(std::vector<Batch> batch, std::int64_t number, double learning_rate, const StepHooks& hooks = {});
  /// The loss [] of a micro-batch, recorded where a tape is recording.
  Variable loss(Batch batch) { return result_of(std::move(batch)).loss; }
  /// Calibrates `policy`, if it is adaptive and that is due: in a pass over a sixth of the batch, or by draws over all
  /// of it. Gradients of the parameters and running statistics stay as they are. Returns whether it has.
  bool calibrate(const Batch& batch, MemoryPolicy& policy);
  /// How the optimizer weighs errors of the gradient.
  ErrorMeasure error_measure() const;
  /// Memory that a captured step holds between steps; 0 if there is none.
  std::int64_t captured_bytes() const;
  /// Gives that memory back. The next step of the same shapes is captured anew.
  void release_captured();
  /// Whether steps on cuda are captured, as far as the options decide it.
  bool captures_steps() const;
  /// Whether a run sends the next batch to the device while a captured step runs.
  bool sends_ahead() const;
  /// Micro-batches of the host as a captured step would read them: prepared, with what kernels read on the model's
  /// device. Nothing: the host reads too much of them.
  std::optional<std::vector<Batch>> captured_inputs(std::vector<Batch> batch) const;

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
  std::int64_t steps_per_epoch() const { return train().count(); }
  /// Whether the epoch under way has no whole batch left. It counts as done once it is evaluated.
  bool epoch_over() const { return progress_.totals.samples + train().size() > train().samples(); }
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
  struct Captured;
  struct Graphs;
  /// A replay that the host has not read.
  struct Started {
    StepResult result;
    DeviceNumbers numbers;  // the step's figures, then those of its totals
    double weight;          // of the batch
    std::shared_ptr<const OptimizerStep> update;
    std::shared_ptr<const RunningTotals> totals;
    std::function<void(StepResult)> tell{};
  };
  /// How a step is run, in ascending order of what has to be the same as before. Ranks run it in the least way of all.
  enum class Way : std::uint8_t { queued, captured, replayed };
  /// The micro-batches of a step, as the host has them ready.
  struct Work {
    std::vector<Batch> batch{};     // prepared, where steps are captured
    std::vector<double> weights{};  // of the micro-batches
    bool is_sent = false;           // copied to the device ahead
    std::vector<DamagedFile> damaged{};
  };
  /// The facts that ranks agree about before a step.
  struct Agreement {
    Way way;
    std::vector<double> shares;  // of each micro-batch in the weight of the whole batch of all ranks; zeros: of 0
  };

  const Batches& train() const;

  // trainer_step.cpp
  /// Whether the gradient of a part says anything.
  bool shows_something(const Batch& part) const;
  /// `wish`: how this rank would run the step.
  Agreement agree(std::span<const double> weights, Way wish) const;
  Work work_of(std::vector<Batch> batch) const;
  /// `meanwhile` is called while the device works, before the host waits for it; may be null. Nothing: `started_` is
  /// the step, to be told later; only where `may_wait`.
  std::optional<StepResult> step(Work work, std::int64_t number, double learning_rate, const StepHooks& hooks,
                                 const std::function<void()>& meanwhile, bool may_wait);
  TaskResult result_of(Batch batch);
  /// Queues the work of a step on the device: forward, backward, exchange, clip, update. `weights` and `shares`: of the
  /// micro-batches, in running totals, and in loss and gradient. `clock`: the step's number on the device, of a step
  /// that is captured; null: `number`. Returns the bytes held for backward.
  std::int64_t queue(std::vector<Batch>& batch, std::span<const Factor> weights, std::span<const Factor> shares,
                     std::int64_t number, OptimizerStep& update, RunningTotals& totals, const StepHooks& hooks,
                     const std::uint32_t* clock = nullptr);
  void backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses, OptimizerStep& update,
                bool in_backward);
  void exchange_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses, OptimizerStep& update,
                            bool in_backward);
  /// Copies the figures of a step to its result.
  void note(const StepReport& report, StepResult& result) const;
  /// Waits for the device, and averages the weights.
  void finish(const OptimizerStep& update, std::int64_t number, StepResult& result);
  /// Prepares the exchange of gradients before the first step of several ranks.
  void open_exchange();
  /// The ranks, for memory of the model's device.
  Communicator& ranks_of_device() const { return device_ranks_ ? *device_ranks_ : state_.ranks; }

  // trainer_graph.cpp
  /// Reads the step that was started, if there is one, and tells it.
  void settle();
  /// Before a queued step, whose memory is that of the graphs: gives it back, unless the step is one that cannot be
  /// captured and has room beside it.
  void make_room();
  /// Behind a queued step, before which tensors held `held` bytes. The ledger's peak may be of a step before: it is no
  /// lower.
  void note_need(std::int64_t held);
  /// Whether the host may read the result of a replay after it has started the next one. It must need the result for
  /// nothing in between.
  bool may_settle_later() const;
  /// Gives the memory of a captured step back, since its shapes or what the host does differ now.
  Way leave_captured();
  /// How this rank would run a step on prepared micro-batches; result.not_captured says why it is queued.
  Way way_of(const std::vector<Batch>& batch, const StepHooks& hooks, StepResult& result);
  /// Captures the step on all ranks, or says why not in result.not_captured and returns false.
  bool capture(const std::vector<Batch>& batch, const StepHooks& hooks, StepResult& result);
  /// Runs the captured step. Nothing: see `step`.
  std::optional<StepResult> replay(const Work& work, const Agreement& agreed, std::int64_t number, double learning_rate,
                                   const std::function<void()>& meanwhile, bool may_wait, StepResult result);
  /// Copies the inputs of the next step beside the work of this one, if that is captured with the same shapes.
  void send_ahead(Work& next);
  /// The batch with tensors on the model's device in place of those that kernels read.
  std::vector<Batch> on_device_of(std::vector<Batch> batch) const;
  /// All that a captured step depends on beside what its tensors hold; nothing: the host reads too much of the batch.
  std::optional<std::string> signature_of(const std::vector<Batch>& batch) const;

  // trainer.cpp
  /// Evaluates if an epoch or the run is over, or an evaluation within the epoch is due. False if it was stopped.
  bool evaluate_if_due(const TrainerEvents& events);
  void take_step(Loader& loader, const TrainerEvents& events);
  /// Samples and steps of the epoch and the run with the step that was started.
  std::int64_t samples_begun() const;
  std::int64_t steps_begun() const;
  Work next_work(Loader& loader) const;
  LoaderOptions loader_options() const;
  bool is_better(const Evaluation& evaluation) const;
  bool is_stopped(const TrainerEvents& events) const;
  /// As checkpoints have it.
  std::map<std::string, std::string> identity() const;

  TrainedState state_;
  const Task& task_;
  std::optional<Batches> train_, validation_;  // nothing where the caller makes the batches
  TrainerOptions options_;
  BestBy best_by_;
  Progress progress_;
  std::vector<Parameter*> parameters_;          // all of the model
  std::unique_ptr<Communicator> device_ranks_;  // of a GPU; null on the CPU, and until the first step
  std::unique_ptr<GradientExchange> exchange_;  // null of one rank, and before the first step
  std::unique_ptr<Graphs> graphs_;              // null until a step could be captured
  std::unique_ptr<Started> started_;            // null: all steps are told
  std::chrono::steady_clock::time_point told_;  // when the last step was
  std::optional<Work> next_;                    // of the next step of an epoch; nothing: the loader has it
  std::exception_ptr next_error_;               // why it could not be read: the next step's error
};

}  // namespace lacuna
