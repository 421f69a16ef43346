// Fully connected layer.
#pragma once

#include "nn/module.h"

#include <optional>

namespace lacuna::nn {

/// Initial values of a layer with weight and bias; torch.nn's defaults where one is empty.
struct WeightInit {
  Init weight;
  Init bias;
};

struct LinearOptions {
  bool bias = true;
  WeightInit init = {};
};

/// y = x · weightᵀ + bias: [..., in] to [..., out]. weight [out, in], bias [out].
class Linear : public Module {
 public:
  Linear(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, const LinearOptions& options = {});
  /// `scale` [out], if given, multiplies y: layer scale (ops/scaled_linear.h).
  Variable forward(Variable x, Variable scale = {}) const;
  /// Undefined without a bias.
  Variable bias() const { return bias_ ? bias_->variable() : Variable(); }

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
};

}  // namespace lacuna::nn
