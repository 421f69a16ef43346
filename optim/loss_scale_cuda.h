// Launchers of optim/loss_scale.cu.
#pragma once

#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// *gradient = share · *times · *scale.
struct SeedLossGradient {
  double share;
  const double* times;  // []; null: 1
  const float* scale;   // []; null: 1
  float* gradient;      // []
};
void seed_loss_gradient(Stream stream, const SeedLossGradient& what);

/// The scale after a step (optim/loss_scale_rule.h: next_loss_scale).
struct AdaptLossScale {
  const std::int32_t* finite;  // []
  std::int64_t growth_interval;
  float* scale;              // []
  std::int32_t* good_steps;  // []
};
void adapt_loss_scale(Stream stream, const AdaptLossScale& what);

}  // namespace lacuna::cuda
