#include "optim/loss_scale_cuda.h"

#include "core/block.h"
#include "optim/loss_scale_rule.h"

namespace lacuna::cuda {
namespace {

struct Seed {
  static constexpr int threads = 32;
  SeedLossGradient what;
  LACUNA_DEVICE void operator()(const Block<Seed>& block) const {
    if (block.thread() != 0) return;
    const double share = what.times == nullptr ? what.share : what.share * *what.times;
    *what.gradient = static_cast<float>(what.scale == nullptr ? share : share * static_cast<double>(*what.scale));
  }
};

struct Adapt {
  static constexpr int threads = 32;
  AdaptLossScale what;
  LACUNA_DEVICE void operator()(const Block<Adapt>& block) const {
    if (block.thread() != 0) return;
    const LossScaleState next =
        next_loss_scale({*what.scale, *what.good_steps}, *what.finite != 0, what.growth_interval);
    *what.scale = next.scale;
    *what.good_steps = next.good_steps;
  }
};

}  // namespace

void seed_loss_gradient(Stream stream, const SeedLossGradient& what) { run(stream, 1, Seed{what}); }

void adapt_loss_scale(Stream stream, const AdaptLossScale& what) { run(stream, 1, Adapt{what}); }

}  // namespace lacuna::cuda
