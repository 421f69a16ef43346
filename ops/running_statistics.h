// State that follows what training sees. No gradient: modules change it in place, outside the tape.
#pragma once

#include "core/tensor.h"

namespace lacuna {

/// running ← (1 − momentum) · running + momentum · factor · value, in f32. running, value: [C].
void follow(const Tensor& running, const Tensor& value, double momentum, double factor);

/// Adds one to a counter: i64 [].
void increment(const Tensor& counter);

}  // namespace lacuna
