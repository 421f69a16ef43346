// The loss of a classifier of many classes.
#pragma once

#include "autograd/variable.h"
#include "ops/losses/linear_cross_entropy.h"

namespace lacuna::nn {

/// LinearCrossEntropy, or FrozenLinearCrossEntropy where x alone needs a gradient. x [N, K] or [1, N, K]; weight [V,
/// K]; bias [V] or undefined; labels i64 [N].
Variable linear_cross_entropy(Variable x, Variable weight, Variable bias, Variable labels,
                              const LinearCrossEntropy& loss = {});

}  // namespace lacuna::nn
