// The two-layer perceptron of a transformer block.
#pragma once

#include "nn/dropout.h"
#include "nn/linear.h"
#include "ops/activation.h"

namespace lacuna::nn {

struct MlpOptions {
  Gelu::Form activation = Gelu::Form::erf;
  double dropout = 0;
  WeightInit init = {};  // of both layers
};

/// fc2(gelu(fc1(x))) with dropout behind both: [..., width] to [..., width] through [..., hidden]; timm's layer.
class Mlp : public Module {
 public:
  Mlp(Module& parent, std::string_view name, std::int64_t width, std::int64_t hidden, const MlpOptions& options);
  Variable forward(Variable x) const;

 private:
  Gelu::Form activation_;
  Linear fc1_;
  Dropout dropout1_;
  Linear fc2_;
  Dropout dropout2_;
};

}  // namespace lacuna::nn
