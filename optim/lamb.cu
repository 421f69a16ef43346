#include "optim/lamb_cuda.h"

#include "optim/rules.h"
#include "optim/update_kernels.h"

namespace lacuna::cuda {
namespace {

/// The formula of the second half takes the place of the first one's. A thread a parameter.
struct BeginApply {
  static constexpr int threads = 32;
  LambRule rule;
  UpdatesOnCuda first, second;
  const double* squares;  // [parameters, 2]: Σ x² of each parameter and of its update, where the rule adapts to them
  LACUNA_DEVICE void operator()(const Block<BeginApply>& block) const {
    const std::int64_t i = block.global_thread();
    if (i >= first.parameters.count) return;
    const Rate rate = rate_of(first, first.parameters.entries[i]);
    auto& begun = begun_of<formula::LambApply>(second, i);
    begun.updates = begun_of<formula::LambUpdate>(first, i).updates;
    if (begun.updates) begun.formula = rule.apply(rate, squares[2 * i], squares[2 * i + 1]);
  }
};

}  // namespace

void update(Stream stream, const LambRule& rule, const LambUpdatesOnCuda& what) {
  const UpdatesOnCuda& first = what.updates;
  begin_updates(stream, rule, first);
  update_chunks<formula::LambUpdate, LambRule::states, true>(stream, first);
  sums_of_squares(stream, what.norms);
  UpdatesOnCuda second = first;
  second.begun = what.begun;
  run(stream, divide_up(first.parameters.count, BeginApply::threads),
      BeginApply{rule, first, second, what.norms.squares});
  update_chunks<formula::LambApply, 0>(stream, second);
}

}  // namespace lacuna::cuda
