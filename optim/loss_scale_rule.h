// How a dynamic loss scale changes: the same on every device.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace lacuna {

/// Settings of a dynamic loss scale.
struct LossScaleSettings {
  double initial = 65536;               // torch.amp.GradScaler's init_scale
  std::int64_t growth_interval = 2000;  // steps in a row with finite gradients after which it doubles
};
struct LossScaleState {
  float scale;
  std::int32_t good_steps;  // since it last changed
};
/// After a step whose gradients were finite or not.
LACUNA_HOST_DEVICE inline LossScaleState next_loss_scale(LossScaleState now, bool finite,
                                                         std::int64_t growth_interval) {
  if (!finite) return {now.scale / 2, 0};
  if (now.good_steps + 1 < growth_interval) return {now.scale, now.good_steps + 1};
  return {now.scale < 0x1p126F ? now.scale * 2 : now.scale, 0};
}

}  // namespace lacuna
