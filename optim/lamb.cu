#include "optim/lamb_cuda.h"

#include "optim/update_kernels.h"

namespace lacuna::cuda {
namespace {

/// The formula of the second half takes the place of the first one's.
struct BeginApply {
  static constexpr int threads = 32;
  LambRule rule;
  LambUpdateOnCuda what;
  LACUNA_DEVICE void operator()(const Block<BeginApply>& block) const {
    if (block.thread() != 0) return;
    const auto& first = *static_cast<const Begun<formula::LambUpdate>*>(what.update.begun);
    auto& begun = *static_cast<Begun<formula::LambApply>*>(what.begun);
    begun.updates = first.updates;
    if (begun.updates)
      begun.formula = rule.apply(rule.adapts() ? what.squares[0] : 0.0, rule.adapts() ? what.squares[1] : 0.0);
  }
};

}  // namespace

void update(Stream stream, const LambRule& rule, const LambUpdateOnCuda& what) {
  begin_update(stream, rule, what.update);
  update_elements<formula::LambUpdate, LambRule::states, true>(stream, what.update);
  if (rule.adapts()) {
    const auto squares = [&](const void* x, DType type, double* square) {
      sum_of_squares(
          stream, type,
          {.x = x, .count = what.update.count, .partial = what.partial, .square = square, .finite = nullptr});
    };
    squares(what.update.parameter, DType::f32, what.squares);
    squares(what.update.gradient, what.update.gradient_type, what.squares + 1);
  }
  run(stream, 1, BeginApply{rule, what});
  UpdateOnCuda second = what.update;
  second.begun = what.begun;
  update_elements<formula::LambApply, 0>(stream, second);
}

}  // namespace lacuna::cuda
