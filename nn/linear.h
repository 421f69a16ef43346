// The fully connected layer.
#pragma once

#include "nn/adaptable.h"
#include "ops/shapes/sequences.h"

#include <optional>
#include <string_view>
#include <vector>

namespace lacuna::nn {

/// Initial values of a layer's weight and bias; an empty one means torch.nn's default.
struct WeightInit {
  Init weight;
  Init bias;
};

struct LinearOptions {
  bool bias = true;
  WeightInit init = {};
  std::vector<std::string_view> parts = {};
  bool takes_few_bits = true;  // whether the weight may be in few bits while it is frozen
};

/// y = x · weightᵀ + bias: [..., in] to [..., out]. weight [out, in], bias [out].
class Linear final : public Adaptable {
 public:
  Linear(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, const LinearOptions& options = {});
  /// `scale` [out], if given, multiplies y: layer scale (ops/products/scaled_linear.h). `sequences`: the sequences of
  /// packed tokens x [1, T, in], for an adapter's dropout; null: axis 0 of x is the batch. `residual` [..., out], if
  /// given, is added to y.
  Variable forward(Variable x, Variable scale = {}, const SequencesPtr& sequences = {}, Variable residual = {}) const;
  std::int64_t in() const { return weight_.shape()[1]; }
  std::int64_t out() const { return weight_.shape()[0]; }
  const Parameter& weight() const override { return weight_; }
  /// The bias; undefined if there is none.
  Variable bias() const { return bias_ ? bias_->variable() : Variable(); }
  /// Names of equal parts of the outputs that are separate layers in other libraries (q, k and v); may be empty.
  const std::vector<std::string_view>& parts() const { return parts_; }

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
  std::vector<std::string_view> parts_;
};

}  // namespace lacuna::nn
