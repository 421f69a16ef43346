// A training step: forward and backward over the micro-batches of one batch, then the optimizer's update.
#pragma once

#include "autograd/sensitivity.h"
#include "core/communicator.h"
#include "optim/clip.h"
#include "optim/ema.h"
#include "optim/gradient_exchange.h"
#include "optim/optimizer.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

class MemoryPolicy;
class Observer;
class OptimizerStep;
class Tape;

struct TrainStepOptions {
  Clipping clipping{};
  bool in_backward = false;      // apply each gradient as soon as it is complete (see step_in_backward)
  std::uint64_t seed = 1;        // of the step's random draws
  bool shard_gradients = false;  // each rank keeps those of the parameters that it updates alone
  ExchangeOptions exchange{};
};

/// The micro-batches of one step: of this rank, and each rank has as many samples.
struct StepParts {
  std::span<const std::int64_t> samples;  // of each micro-batch
  /// The loss [] of micro-batch `part`: the mean over its samples. Recorded on the step's tape.
  std::function<Variable(std::size_t part)> loss;
  /// Called before each micro-batch, and after its forward pass. May be null.
  std::function<void(std::size_t part)> before{};
  std::function<void(Tape& tape)> after_forward{};
  Observer* observer = nullptr;
};

struct StepResult {
  double loss = 0;               // mean over all samples; 0 on `meta`
  double gradient_norm = 0;      // of all gradients together, before clipping; 0 on `meta`
  std::string nonfinite{};       // the parameter whose gradient is not finite, if there is one
  bool updated = false;          // whether any parameter was
  double loss_scale = 1;         // of this step
  bool overflowed = false;       // its gradients did at that scale: nothing was updated, and the scale was halved
  std::int64_t saved_bytes = 0;  // held for backward, of the micro-batch with the most
  /// Whether the run can go on.
  bool finite() const { return std::isfinite(loss) && (overflowed || std::isfinite(gradient_norm)); }
};

class TrainStep {
 public:
  /// All of them outlive it. `average` may be null.
  TrainStep(Module& model, Optimizer& optimizer, MemoryPolicy& policy, const TrainStepOptions& options,
            WeightAverage* average = nullptr, Communicator& ranks = single_process());
  ~TrainStep();
  TrainStep(TrainStep&&) noexcept;

  /// Step number `number` of the run, on which its random draws depend. The loss and the gradients are those of the
  /// mean over all samples. If one of them is not finite, no parameter is updated; in backward, parameters before the
  /// first such gradient may be. Gradients are released. Of several ranks all have the same result, which is that of
  /// one process that has the micro-batches of all.
  StepResult run(const StepParts& parts, std::int64_t number, double lr);

  /// Captures such a step on a cuda device (core/device_graph.h), and does nothing: `replay` takes it with what the
  /// tensors of `parts` hold by then. Replayed steps have the bits of others. Throws Error if the step cannot be
  /// captured: its policy waits for the device or draws on the host, say. Of one rank alone.
  void capture(const StepParts& parts);
  StepResult replay(std::int64_t number, double lr);
  bool is_captured() const { return captured_ != nullptr; }
  /// Gives back the memory of the captured step.
  void forget();
  /// Memory that a captured step holds between replays; 0 if there is none.
  std::int64_t captured_bytes() const;

  /// How the optimizer weighs errors of the gradient.
  ErrorMeasure error_measure() const;

 private:
  /// A step whose work is queued on the device.
  struct Queued;
  struct Captured;
  /// `captured`: of which the work will be replayed; null: it is done as step `number`.
  std::unique_ptr<Queued> queue(const StepParts& parts, std::int64_t number, double lr, const Captured* captured);
  /// Waits for the device.
  StepResult finish(const Queued& queued, std::int64_t number);

  /// Backward of the last micro-batch. The gradients that are left afterwards are those of all ranks, and measured.
  void exchange_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses, OptimizerStep& update,
                            bool in_backward);

  /// The ranks, for memory of the model's device.
  Communicator& ranks_of_device() const { return device_ranks_ ? *device_ranks_ : ranks_; }

  Module& model_;
  Optimizer& optimizer_;
  MemoryPolicy& policy_;
  TrainStepOptions options_;
  WeightAverage* average_;
  Communicator& ranks_;
  std::unique_ptr<Communicator> device_ranks_;  // of a GPU; null on the CPU, and until the first step
  std::unique_ptr<GradientExchange> exchange_;  // null of one rank, and before the first step
  std::unique_ptr<Captured> captured_;          // null: none is
};

}  // namespace lacuna
