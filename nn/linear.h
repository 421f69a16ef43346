// Fully connected layer.
#pragma once

#include "nn/module.h"

#include <memory>
#include <optional>

namespace lacuna::nn {

class LinearAdapter;

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
  ~Linear() override;
  /// `scale` [out], if given, multiplies y: layer scale (ops/scaled_linear.h).
  Variable forward(Variable x, Variable scale = {}) const;
  std::int64_t in() const { return weight_.shape()[1]; }
  std::int64_t out() const { return weight_.shape()[0]; }
  const Parameter& weight() const { return weight_; }
  /// Undefined without a bias.
  Variable bias() const { return bias_ ? bias_->variable() : Variable(); }

  /// What computes the result in the layer's place (nn/adapter.h); null: the layer itself.
  const LinearAdapter* adapter() const { return adapter_.get(); }
  void set_adapter(std::unique_ptr<LinearAdapter> adapter);

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
  std::unique_ptr<LinearAdapter> adapter_;
};

}  // namespace lacuna::nn
