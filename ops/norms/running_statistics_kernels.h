// Kernels of ops/norms/running_statistics.h.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// running = (1 - momentum) · running + momentum · factor · value. f32 [C].
inline constinit Kernel<void(float momentum, float factor, const Tensor& value, const Tensor& running)>
    ema_update_elements{"ema_update"};

/// Adds 1 to counter, i64 [].
inline constinit Kernel<void(const Tensor& counter)> increment_counter{"increment"};

}  // namespace lacuna
