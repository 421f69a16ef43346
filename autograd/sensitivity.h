// Sensitivities: the effect of errors in saved tensors on the gradient.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lacuna {

/// The norm in which errors of parameters' gradients are summed.
enum class ErrorMeasure : std::uint8_t {
  absolute,  // squared errors, as in GACT: for optimizers whose update is proportional to the gradient
  relative,  // squared errors over the row's mean squared gradient: for optimizers that divide by the gradient's
             // magnitude or use its sign, so that parameters with small gradients move as far as others
};

/// Sensitivities by key of the saved tensor (SavedTensorInfo::key). A sensitivity is the variance of the whole
/// gradient, in some ErrorMeasure, due to an error as large as the tensor's values.
using Sensitivities = std::map<std::string, double>;

/// The number of rows of a parameter; within a row, gradients have similar magnitudes. A linear layer or convolution
/// has one row per output, a vector one row in all. (In a packed projection the gradients of queries and keys are a
/// tenth of those of values.)
std::int64_t rows_alike(const Shape& parameter);

/// The squared error `changed` − `other` of a parameter's `gradient` in `measure`; an undefined `other` counts as zero.
/// A relative error is capped at 4 per element, since some gradients are nearly zero, such as that of a bias before a
/// norm.
double counted_error(const Tensor& changed, const Tensor& other, const Tensor& gradient, ErrorMeasure measure);

/// A record, node by node in the order of backward, of how much each saved tensor at fewer bits changes the gradients.
///
/// The error of a parameter's gradient counts as measured. The error of a gradient that flows on to another node is
/// also measured through that node, since errors may add up there: a norm sums them over its row. Beyond it, errors are
/// assumed proportional to the gradient and independent between elements. Their squares then divide among parameters
/// and further nodes like the squares of the gradient with random signs.
class SensitivityRecord {
 public:
  /// The squared norm of a gradient that flows to another node of the tape.
  struct Flow {
    std::int64_t to = 0;
    double square = 0;
  };

  /// Adds a node that backward reaches: the squared norm of its outputs' gradients and, with random signs on those, the
  /// squared norms of its parameters' gradients and of the gradients that flow on.
  void add_node(std::int64_t node, double gradient, double parameters, std::vector<Flow> flows);
  /// Adds the squared changes of the last added node's gradients with saved tensor `key` at only `bits` bits. Returns
  /// the change's number.
  std::size_t add_change(const std::string& key, int bits, double parameters, std::vector<Flow> flows);
  /// Replaces the part of a change that flows to node `through` by the squared changes measured after that node.
  void follow(std::size_t change, std::int64_t through, double parameters, const std::vector<Flow>& flows);

  /// The sensitivities, in the measure of the added values.
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
