// One step of an optimizer: gradients are measured, held down and applied, all at once or each as soon as it is there.
#pragma once

#include "autograd/tape.h"
#include "optim/clip.h"
#include "optim/optimizer.h"

#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lacuna {

class OptimizerStep {
 public:
  /// Of all `parameters` of a model, which outlive it; those that have no gradient take no part. An error where more
  /// than one limit is set.
  OptimizerStep(Optimizer& optimizer, std::span<Parameter* const> parameters, double lr, const Clipping& clipping);

  /// Notes the norm of the parameter's gradient as it is now.
  void measure(const Parameter& parameter);
  /// Updates the parameter by its gradient, which was measured, and releases that. With Clipping::norm all gradients
  /// have to be measured before the first is applied.
  void apply(Parameter& parameter);
  /// Of all gradients measured so far, before clipping. The same bits in whatever order they were measured.
  double gradient_norm() const;
  /// Whether any was.
  bool applied() const { return applied_; }
  std::span<Parameter* const> parameters() const { return parameters_; }
  /// Whether gradients cannot be applied before all are known.
  bool needs_all() const { return clipping_.norm > 0; }
  /// The first parameter, in their order, whose gradient is not finite; null where all are.
  const Parameter* nonfinite() const;

 private:
  Optimizer& optimizer_;
  std::span<Parameter* const> parameters_;
  double lr_;
  Clipping clipping_;
  std::unordered_map<const Parameter*, std::size_t> index_;
  std::vector<double> squares_;  // of each parameter's gradient
  bool applied_ = false;
};

/// Walks the tape back and applies each gradient as soon as it is whole: then its memory goes, and gradients never
/// exist all at once. The result is that of Tape::backward and then measure and apply, to the bit. Where gradients are
/// held down by the norm of all of them, the tape is walked back twice, first for the norms alone: that costs one
/// backward pass more, and what is saved for backward stays until the second. From the first gradient on that is not
/// finite nothing more is applied.
void step_in_backward(Tape& tape, const std::vector<std::pair<Variable, Tensor>>& losses, OptimizerStep& step);

}  // namespace lacuna
