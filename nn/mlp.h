// The two-layer perceptron of a transformer block.
#pragma once

#include "nn/dropout.h"
#include "nn/linear.h"

namespace lacuna::nn {

/// quick_gelu: x·σ(1.702·x), as in OpenAI's CLIP.
enum class Activation : std::uint8_t { gelu, gelu_tanh, quick_gelu, relu };
inline constexpr std::array<std::pair<std::string_view, Activation>, 4> names_of(Activation) {
  return {{{"gelu", Activation::gelu},
           {"gelu_tanh", Activation::gelu_tanh},
           {"quick_gelu", Activation::quick_gelu},
           {"relu", Activation::relu}}};
}

Variable activate(Activation activation, Variable x);

struct MlpOptions {
  Activation activation = Activation::gelu;
  bool gated = false;  // SwiGLU (Shazeer 2020): silu of the first half of fc1's outputs times the second half
  double dropout = 0;
  WeightInit init = {};  // for both layers
};

/// timm's Mlp: fc2(activation(fc1(x))), with dropout after both. Maps [..., width] to [..., width] via [..., hidden].
class Mlp : public Module {
 public:
  Mlp(Module& parent, std::string_view name, std::int64_t width, std::int64_t hidden, const MlpOptions& options);
  /// `scale` [width], if given, multiplies the result; then `residual` [..., width], if given, is added.
  Variable forward(Variable x, Variable scale = {}, Variable residual = {}) const;

 private:
  Variable hidden(Variable x) const;

  Activation activation_;
  bool gated_;
  Linear fc1_;
  Dropout dropout1_;
  Linear fc2_;
  Dropout dropout2_;
};

}  // namespace lacuna::nn
