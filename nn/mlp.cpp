#include "nn/mlp.h"

#include "nn/region.h"

namespace lacuna::nn {

Mlp::Mlp(Module& parent, std::string_view name, std::int64_t width, std::int64_t hidden, const MlpOptions& options)
    : Module(parent, name),
      activation_(options.activation),
      fc1_(*this, "fc1", width, hidden, {.init = options.init}),
      dropout1_(*this, "drop1", options.dropout),
      fc2_(*this, "fc2", hidden, width, {.init = options.init}),
      dropout2_(*this, "drop2", options.dropout) {}

Variable Mlp::forward(Variable x) const {
  return run_region(*this, std::move(x), [this](Variable in) {
    const Scope scope(*this);
    Variable hidden = dropout1_.forward(apply(Gelu{.form = activation_}, fc1_.forward(std::move(in))));
    return dropout2_.forward(fc2_.forward(std::move(hidden)));
  });
}

}  // namespace lacuna::nn
