// Running statistics of batch norm. Modules change them in place, outside the tape.
#pragma once

#include "core/tensor.h"

namespace lacuna {

/// running ← (1 − momentum) · running + momentum · factor · value. running, value: f32 [C].
void ema_update(const Tensor& running, const Tensor& value, double momentum, double factor);

/// Adds one to a counter: i64 [].
void increment(const Tensor& counter);

}  // namespace lacuna
