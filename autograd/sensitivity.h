// How errors of saved tensors change the gradient.
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

/// Rows of a parameter within which gradients have about one size: one for each output of a linear layer or
/// convolution; a vector is one row. In a packed projection the gradients of queries and keys are a tenth of those of
/// values.
std::int64_t rows_alike(const Shape& parameter);

/// The squared error `changed` − `other` of a parameter's `gradient` in `measure`; `other` undefined: of `changed`. A
/// relative error is at most 4 for each element: some gradients are nearly zero, as that of a bias before a norm.
double counted_error(const Tensor& changed, const Tensor& other, const Tensor& gradient, ErrorMeasure measure);

/// Notes, node by node in the order of backward, how much one saved tensor at fewer bits changes the gradients.
///
/// The error of a parameter's gradient counts as measured. The error of a gradient that flows on is measured through
/// the next node too, since errors may add up there: a norm sums them over its row. Behind that node, errors are taken
/// to be proportional to the gradient and independent from element to element. Their squares then split over parameters
/// and further nodes as the squares of the gradient with random signs do.
class SensitivityRecord {
 public:
  /// A gradient that goes to another node of the tape.
  struct Flow {
    std::int64_t to = 0;
    double square = 0;
  };

  /// A node that backward reaches: the squared norm of its outputs' gradients, and, with random signs on those, the
  /// squared norms of the gradients of its parameters and of those that flow on.
  void add_node(std::int64_t node, double gradient, double parameters, std::vector<Flow> flows);
  /// The squared changes of the gradients of the node added last, with saved tensor `key` at only `bits` bits. Returns
  /// the change's number.
  std::size_t add_change(const std::string& key, int bits, double parameters, std::vector<Flow> flows);
  /// Replaces the part of a change that flows to node `through` by the squares measured behind that node.
  void follow(std::size_t change, std::int64_t through, double parameters, const std::vector<Flow>& flows);

  /// In the measure of what was added.
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
