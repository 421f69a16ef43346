// Calibration: measures how much the gradient depends on the precision of each saved tensor.
//
// A step is given as a function that runs forward and returns the loss. It is measured either in one backward pass or,
// as GACT does, by running the step again for each tensor. Neither way changes gradients or running statistics.
#pragma once

#include "autograd/sensitivity.h"
#include "autograd/variable.h"

#include <functional>
#include <set>
#include <string>
#include <unordered_map>

namespace lacuna {

struct Node;
class MemoryPolicy;

using CalibrationStep = std::function<Variable()>;

struct Calibration {
  Sensitivities sensitivities{};
  double gradient = 0;  // squared gradient over all parameters, in the same measure
};

/// A hook that reruns each node of a backward pass once per quantized tensor it reads, with that tensor at two bits (or
/// one fewer than it has), and records the changes of the gradients. Usage: tape.backward(loss, {.before_node =
/// std::ref(calibration)}).
class BackwardCalibration {
 public:
  explicit BackwardCalibration(ErrorMeasure measure) : measure_(measure) {}
  void operator()(Node& node, std::int64_t id);
  Sensitivities sensitivities() const { return record_.sensitivities(); }

 private:
  /// A change of one gradient that is propagated to the next node of backward.
  struct Change {
    std::size_t change;  // the change's number in the record
    std::size_t output;  // the node's output that the gradient belongs to
    Tensor gradient;
  };
  ErrorMeasure measure_;
  SensitivityRecord record_{};
  std::unordered_map<std::int64_t, std::vector<Change>> arriving_{};  // by node
};

/// One forward and backward pass of `step` under `policy`.
Calibration calibrate_in_backward(MemoryPolicy& policy, const CalibrationStep& step, ErrorMeasure measure);

/// GACT's measurement (Liu et al. 2022, section 4.2): runs `step` once, and once more per quantized tensor with the
/// same random draws except those that round this tensor. Half the squared difference of the two gradients estimates
/// the variance due to quantizing the tensor.
Calibration calibrate_by_draws(MemoryPolicy& policy, const CalibrationStep& step, ErrorMeasure measure);

}  // namespace lacuna
