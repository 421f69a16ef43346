// What codes do to the gradient, measured while backward runs.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lacuna {

/// How errors of parameters' gradients add up.
enum class ErrorMeasure : std::uint8_t {
  absolute,  // squares: for an optimizer whose update is as large as the gradient, as GACT does
  relative,  // squares over the mean square of the gradient, row by row: for an optimizer that divides by the
             // gradient's size, or takes its signs, so that what has a small gradient moves as far as others
};

/// By key of the saved tensor (SavedTensorInfo::key): the variance of the whole gradient that an error as large as the
/// tensor's values would cause, in some ErrorMeasure.
using Sensitivities = std::map<std::string, double>;

/// The rows of a parameter whose gradients are as large as each other, more or less: one an output of a linear layer or
/// a convolution; a vector is one row. In a packed projection queries and keys have gradients of a tenth of those of
/// values.
std::int64_t rows_alike(const Shape& parameter);

/// What a change of a parameter's `gradient` counts: `changed` less `other`, or all of it without. Where the gradient
/// is nearly zero, as of a bias before a norm, no change is more than twice as large as it.
double counted_error(const Tensor& changed, const Tensor& other, const Tensor& gradient, ErrorMeasure measure);

/// Gathers, node by node in the order of backward, how much coarser codes of one slot change the gradients.
///
/// The error of a parameter's gradient counts as it is. That of a gradient which flows on is followed through the next
/// node as it is, too: where that node has errors of one sum in all its elements, as of a norm's mean, they add up
/// there. From then on it is taken to be as large as the gradient is, element by element, and independent from element
/// to element: of its square such a part goes at each node into parameters, and such parts on to other nodes, as those
/// of the gradient with signs drawn at random.
class SensitivityRecord {
 public:
  /// A gradient that goes to another node of the tape.
  struct Flow {
    std::int64_t to = 0;
    double square = 0;
  };

  /// A node that backward reaches: the squares of its output's whole gradient, and, when the signs of that are drawn,
  /// of its parameters' gradients and of what flows on.
  void add_node(std::int64_t node, double gradient, double parameters, std::vector<Flow> flows);
  /// SavedTensor `key` was held in `bits` more coarsely than it is, for the node added last: the squared changes.
  /// Returns the change's number.
  std::size_t add_change(const std::string& key, int bits, double parameters, std::vector<Flow> flows);
  /// What flows of a change to a node has been followed through it: the squares behind.
  void follow(std::size_t change, std::int64_t through, double parameters, const std::vector<Flow>& flows);

  /// Of each slot: the variance of the whole gradient that an error as large as its values would
  /// cause, in the measure of what was added.
  Sensitivities sensitivities() const;

 private:
  struct Change {
    std::string key;
    int bits;
    double parameters;
    std::vector<Flow> flows;
  };
  struct Node {
    std::int64_t node;
    double gradient, parameters;
    std::vector<Flow> flows;
  };
  std::vector<Node> nodes_;
  std::vector<Change> changes_;
};

}  // namespace lacuna
