// Calibration: how much the gradient depends on the precision of each saved tensor.
//
// Two ways to measure it for a step, given as a function that runs forward and returns the loss: in one backward pass,
// or as GACT does by running the step again for each tensor. Both leave gradients and running statistics as they are.
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
  double gradient = 0;  // its square in the same measure, over all parameters
};

/// Runs each node of a backward pass once more for each quantized tensor that it reads, with that tensor at two bits
/// (or one less than it has), and notes how the gradients differ: tape.backward(loss, {.before_node =
/// std::ref(calibration)}).
class BackwardCalibration {
 public:
  explicit BackwardCalibration(ErrorMeasure measure) : measure_(measure) {}
  void operator()(Node& node, std::int64_t id);
  Sensitivities sensitivities() const { return record_.sensitivities(); }

 private:
  /// A change of one gradient of a node, on its way through the nodes behind it.
  struct Change {
    std::size_t change;  // its number in the record
    std::size_t output;  // of the node, that has the gradient
    Tensor gradient;
  };
  ErrorMeasure measure_;
  SensitivityRecord record_{};
  std::unordered_map<std::int64_t, std::vector<Change>> arriving_{};  // by node
};

/// One forward and backward pass of `step` under `policy`.
Calibration calibrate_in_backward(MemoryPolicy& policy, const CalibrationStep& step, ErrorMeasure measure);

/// GACT's own measurement (Liu et al. 2022, section 4.2): `step` runs once, and once more for each quantized tensor,
/// with the same random draws but for those that round this tensor. Half the squared difference of the two gradients is
/// the variance that quantizing the tensor causes.
Calibration calibrate_by_draws(MemoryPolicy& policy, const CalibrationStep& step, ErrorMeasure measure);

}  // namespace lacuna
