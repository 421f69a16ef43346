#include "nn/mlp.h"

#include "nn/functional.h"
#include "nn/region.h"
#include "ops/curves/activation.h"
#include "ops/curves/gated_activation.h"

namespace lacuna::nn {

Variable activate(Activation activation, Variable x) {
  switch (activation) {
    case Activation::gelu:
      return gelu(std::move(x));
    case Activation::gelu_tanh:
      return gelu_tanh(std::move(x));
    case Activation::quick_gelu:
      return apply(QuickGelu{}, std::move(x));
    case Activation::relu:
      return relu(std::move(x));
  }
  fail("no such activation");
}

Mlp::Mlp(Module& parent, std::string_view name, std::int64_t width, std::int64_t hidden, const MlpOptions& options)
    : Module(parent, name),
      activation_(options.activation),
      gated_(options.gated),
      fc1_(*this, "fc1", width, hidden, {.init = options.init}),
      dropout1_(*this, "drop1", options.dropout),
      fc2_(*this, "fc2", options.gated ? hidden / 2 : hidden, width, {.init = options.init}),
      dropout2_(*this, "drop2", options.dropout) {}

Variable Mlp::hidden(Variable x) const {
  x = fc1_.forward(std::move(x));
  return gated_ ? apply(GatedActivation{}, std::move(x), Variable()) : activate(activation_, std::move(x));
}

Variable Mlp::forward(Variable x, Variable scale, Variable residual) const {
  std::vector<Variable> read{std::move(x), std::move(residual)};
  return run_region(*this, std::move(read), [this, scale = std::move(scale)](std::vector<Variable> in) {
    const Scope scope(*this);
    return add_branch(std::move(in[1]), dropout2_, [&](Variable to) {
      return fc2_.forward(dropout1_.forward(hidden(std::move(in[0]))), scale, {}, std::move(to));
    });
  });
}

}  // namespace lacuna::nn
