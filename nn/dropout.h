// Dropout layers. They are the identity in evaluation and at rate 0. A layer has one mask in a step: a model that drops
// at two places has two layers.
#pragma once

#include "nn/functional.h"
#include "nn/module.h"
#include "ops/shapes/sequences.h"

namespace lacuna::nn {

/// Zeroes each element with probability `rate` and divides the others by 1 - rate.
class Dropout : public Module {
 public:
  Dropout(Module& parent, std::string_view name, double rate) : Module(parent, name), rate_(rate) {}
  /// `sequences`: the sequences of packed tokens x [1, T, C]; null: axis 0 of x is the batch.
  Variable forward(Variable x, const SequencesPtr& sequences = {}) const;
  /// The same plus `residual`, of x's shape, in one op. Undefined: nothing is added.
  Variable forward_onto(Variable residual, Variable x, const SequencesPtr& sequences = {}) const;
  /// The rate in training; 0 in evaluation.
  double current_rate() const { return training() ? rate_ : 0; }
  /// The random stream that draws this step's mask.
  RandomStream mask_stream() const { return stream("mask"); }

 private:
  double rate_;
};

/// Zeroes each channel of each sample x [N, ..., C] with probability `rate` and divides the others by 1 - rate
/// (torch.nn.Dropout2d; Tompson et al. 2015). The factors [N, C] are saved in place of a mask.
class ChannelDropout : public Module {
 public:
  ChannelDropout(Module& parent, std::string_view name, double rate) : Module(parent, name), rate_(rate) {}
  Variable forward(Variable x) const;

 private:
  double rate_;
};

/// The DropPath rate of a block: increases linearly from 0 in the first of `blocks` to `last_rate` in the last (Huang
/// et al. 2016, section 3).
double drop_path_rate(double last_rate, std::int64_t block, std::int64_t blocks);

/// Zeroes each sample with probability `rate` and divides the others by 1 - rate (stochastic depth).
class DropPath : public Module {
 public:
  DropPath(Module& parent, std::string_view name, double rate) : Module(parent, name), rate_(rate) {}
  Variable forward(Variable x) const { return forward_onto({}, std::move(x)); }
  Variable forward_onto(Variable residual, Variable x) const;
  /// The rate in training; 0 in evaluation.
  double current_rate() const { return training() ? rate_ : 0; }

 private:
  double rate_;
};

/// residual + drop(branch({})) in one op, with `drop` a Dropout or DropPath. While it drops nothing this is
/// branch(residual): the branch adds the residual in its last linear layer. An undefined residual is not added.
/// `sequences`: as in Dropout::forward.
template <class Drop, class Branch, class... Sequences>
Variable add_branch(Variable residual, const Drop& drop, const Branch& branch, const Sequences&... sequences) {
  if (drop.current_rate() == 0) return branch(std::move(residual));
  Variable y = branch(Variable());
  return drop.forward_onto(std::move(residual), std::move(y), sequences...);
}

}  // namespace lacuna::nn
