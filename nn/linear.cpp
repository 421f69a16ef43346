#include "nn/linear.h"

#include "nn/adapter.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "ops/products/linear.h"
#include "ops/products/scaled_linear.h"

namespace lacuna::nn {

Linear::Linear(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, const LinearOptions& options)
    : Adaptable(parent, name),
      weight_(*this, "weight", {out, in}, options.init.weight ? options.init.weight : init::torch_default(in)),
      parts_(options.parts) {
  if (options.takes_few_bits) weight_.allow_few_bits();
  if (options.bias)
    bias_.emplace(*this, "bias", Shape{out}, options.init.bias ? options.init.bias : init::torch_default(in));
}

Variable Linear::forward(Variable x, Variable scale, const SequencesPtr& sequences, Variable residual) const {
  const Scope scope(*this);
  if (const Adapter* const adapter = active_adapter()) {
    Variable y = adapter->forward(std::move(x), std::move(scale), sequences);
    return residual.defined() ? std::move(residual) + std::move(y) : y;
  }
  if (scale.defined())
    return apply(ScaledLinear{}, std::move(x), weight_.variable(), bias(), std::move(scale), std::move(residual));
  return apply(lacuna::Linear{}, std::move(x), weight_.variable(), bias(), std::move(residual));
}

}  // namespace lacuna::nn
