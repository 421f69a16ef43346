// How tests run an op: forward, and backward with the tensors that its table lists.
#pragma once

#include "ops/operand.h"
#include "tests/ops/op_sample.h"

#include <functional>
#include <vector>

namespace lacuna {

/// Largest error allowed, as a part of the largest value in the tensor.
double tolerance(DType dtype);
bool same_bits(const Tensor& a, const Tensor& b);
double largest(const std::vector<double>& values);
/// Largest difference, as a part of the largest expected value. Gradients that are zero in theory count from `floor`.
double relative_error(const Tensor& got, const Tensor& expected, double floor = 1e-3);

std::vector<Tensor> each(const std::vector<Tensor>& tensors, const std::function<Tensor(const Tensor&)>& f);
Tensor in_double(const Tensor& tensor);
std::vector<Tensor> clones(const std::vector<Tensor>& tensors);

struct Result {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<Tensor> extra_outputs;

  const Tensor& at(Source source) const;
  /// The output of an op that has only one.
  const Tensor& y() const;
};

Result forward(const Operation& op, std::vector<Tensor> inputs);

/// How backward gets the tensors of rows that a policy may hold in its own way. `quantized` and `decoded` have the same
/// values, for rows of Need::value.
enum class Form { kept, copied, quantized, decoded, bits };

/// Gradients by input, from those of the outputs. Backward gets what the op's table says it may have, and throws if it
/// asks for more. Pass `dy` as the last one to hold it to let the op write over it.
std::vector<Tensor> backward(const Operation& op, const Result& result, std::vector<Tensor> dy, InputSet wanted,
                             Form form = Form::kept, const std::vector<Tensor>& present = {});

/// The tensor whose inner product with an output gives a scalar loss.
Tensor projection(const Tensor& y, std::uint32_t site = 12345);
std::vector<Tensor> projections(const Result& result);

/// Gradients of the outputs as a program may give them: of all outputs, and of each selection, where the others are
/// undefined.
std::vector<std::vector<Tensor>> selections(const std::vector<Tensor>& dy);
/// Each selection of differentiable inputs.
std::vector<InputSet> subsets(const OpSample& sample);

}  // namespace lacuna
