#include "optim/muon_cuda.h"

#include "core/block.h"
#include "optim/formulas.h"

namespace lacuna::cuda {
namespace {

/// A thread an element.
struct Factor {
  static constexpr int threads = 256;
  NewtonSchulzFactor what;
  LACUNA_DEVICE void operator()(const Block<Factor>& block) const {
    const std::int64_t i = block.global_thread();
    if (i >= what.n * what.n) return;
    const float value = formula::NewtonSchulz{what.linear, what.quadratic}(what.gram[i], what.square[i]);
    what.square[i] = i % (what.n + 1) == 0 ? value + what.identity : value;
  }
};

}  // namespace

void newton_schulz_factor(Stream stream, const NewtonSchulzFactor& what) {
  run(stream, divide_up(what.n * what.n, Factor::threads), Factor{what});
}

}  // namespace lacuna::cuda
