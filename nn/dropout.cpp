#include "nn/dropout.h"

#include "ops/arithmetic/gate_channels.h"
#include "ops/curves/dropout.h"

namespace lacuna::nn {
namespace {

Variable sum_of(Variable residual, Variable x) { return residual.defined() ? std::move(residual) + std::move(x) : x; }

}  // namespace

Variable Dropout::forward(Variable x, const SequencesPtr& sequences) const {
  return forward_onto({}, std::move(x), sequences);
}

Variable Dropout::forward_onto(Variable residual, Variable x, const SequencesPtr& sequences) const {
  if (current_rate() == 0) return sum_of(std::move(residual), std::move(x));
  const Scope scope(*this);
  return apply(lacuna::Dropout{.p = rate_, .stream = mask_stream(), .sequences = sequences}, std::move(x),
               std::move(residual));
}

Variable DropPath::forward_onto(Variable residual, Variable x) const {
  if (current_rate() == 0) return sum_of(std::move(residual), std::move(x));
  const Scope scope(*this);
  return apply(lacuna::DropPath{.p = rate_, .stream = stream("mask")}, std::move(x), std::move(residual));
}

Variable ChannelDropout::forward(Variable x) const {
  if (rate_ == 0 || !training()) return x;
  const Scope scope(*this);
  const Shape shape = x.shape();
  const Variable ones(Tensor::full({shape.front(), shape.back()}, 1, x.dtype(), x.device()));
  Variable factors = apply(lacuna::Dropout{.p = rate_, .stream = stream("mask")}, ones);  // [N, C]
  return apply(GateChannels{.shape = shape}, std::move(x), std::move(factors));
}

double drop_path_rate(double last_rate, std::int64_t block, std::int64_t blocks) {
  return blocks == 1 ? 0 : last_rate * static_cast<double>(block) / static_cast<double>(blocks - 1);
}

}  // namespace lacuna::nn
