// One step of an optimizer: losses and gradients are measured, clipped and
// applied, all at once or during backward.
#pragma once

#include "core/communicator.h"
#include "ops/arithmetic/factor.h"
#include "optim/clip.h"
#include "optim/gradient_exchange.h"
#include "optim/optimizer.h"

#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lacuna {

class Tape;

/// The figures of a step that the host reads; zeros on `meta`.
struct StepReport {
  double loss = 0;
  double gradient_norm = 0;              // of all gradients together, before clipping and without the loss scale
  double loss_scale = 1;                 // of this step
  const Parameter* nonfinite = nullptr;  // the first parameter whose gradient is not finite
  bool updated = false;                  // whether any parameter was
};

/// Loss, norms, clip factor and the check for finite values stay tensors on the
/// device; `report` alone reads them.
class OptimizerStep {
 public:
  /// `parameters`: all of a model, which outlives this; those without a
  /// gradient take no part. Throws Error if more than one limit is set.
  OptimizerStep(Optimizer& optimizer, std::span<Parameter* const> parameters, double lr, const Clipping& clipping);
  /// A step that is replayed, on cuda. rate: f64 [], the learning rate. goes_on: i32 []: 0 after a step that was not
  /// finite; then nothing is updated. Undefined: each step looks at itself alone.
  OptimizerStep(Optimizer& optimizer, std::span<Parameter* const> parameters, const Tensor& rate, const Tensor& goes_on,
                const Clipping& clipping);

  /// Adds weight · loss to the loss of the step. loss: [] f32 or f64. If the
  /// sum is not finite, nothing is updated from here on.
  void add_loss(const Tensor& loss, const Factor& weight);

  /// The gradient with which backward begins: weight, times the loss scale where there is one. In the loss's shape.
  Tensor loss_gradient(const Tensor& loss, const Factor& weight) const;

  /// Adds the losses of all ranks, in their order.
  void add_losses_of(Communicator& ranks);
  /// Adds the norms of gradients that were measured on other ranks, each on one.
  void add_norms_of(Communicator& ranks);

  /// Computes the norms of the parameters' present gradients. If one is not finite, nothing is updated from here on.
  void measure(std::span<Parameter* const> parameters);
  void measure(Parameter& parameter);
  /// Updates the parameters by their measured gradients, and releases the gradients. With Clipping::norm, all gradients
  /// have to be measured before the first is applied.
  void apply(std::span<Parameter* const> parameters);
  void apply(Parameter& parameter);

  std::span<Parameter* const> parameters() const { return parameters_; }
  /// Whether all gradients have to be measured before the first is applied. With a loss scale they have, since a step
  /// of which one overflows changes nothing.
  bool needs_all() const { return clipping_.norm > 0 || scale_.defined(); }

  /// After all updates: what the next step takes from this one.
  void end() const;

  /// Waits for the device: to be called once, at the end of the step.
  StepReport report() const;
  /// The same of `figures` that were read, in a step without a loss scale.
  StepReport report(std::span<const double> figures) const;
  const Tensor& figures() const { return figures_; }

 private:
  void update(std::span<Parameter* const> parameters);
  StepReport report(std::span<const double> figures, double scale) const;

  Optimizer& optimizer_;
  std::span<Parameter* const> parameters_;
  double lr_;
  Clipping clipping_;
  std::unordered_map<const Parameter*, std::size_t> index_;
  Tensor figures_;  // f64 [2 + parameters]: loss, number of updates, squares_; the host reads it once
  Tensor loss_;     // f64 []
  Tensor squares_;  // f64 [parameters]: squared norm of each gradient
  Tensor scale_;    // f32 []: loss scale of this step; undefined: 1
  Tensor goes_on_;  // i32 [] or undefined
  GradientClip clip_;
  bool clip_is_known_ = false;  // the factor for all gradients together
};

/// Runs backward. The gradient of each parameter is computed apart and then
/// added to what earlier micro-batches left there: sums of micro-batches have the
/// same bits whether one process runs all of them or each rank runs one.
/// `complete` is called with each parameter once its gradient is complete; may be
/// null.
void backward_of_parameters(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses,
                            std::span<Parameter* const> parameters,
                            const std::function<void(Parameter&)>& complete = {}, bool retain_graph = false);

/// Runs backward and applies each gradient as soon as it is complete, then
/// releases it: gradients never exist all at once. The result equals that of
/// Tape::backward, measure and apply, to the bit. With Clipping::norm, backward
/// runs twice, first for the norms: that costs one more backward pass, and
/// saved tensors live until the second. From the first gradient on that is not
/// finite, nothing is applied. `exchange` sums each gradient over the ranks
/// before; null: there is one rank.
void step_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses, OptimizerStep& step,
                      GradientExchange* exchange = nullptr);

}  // namespace lacuna
