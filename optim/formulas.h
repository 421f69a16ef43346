// Update rules as functors on one element: one text that the host's loops and a device's kernels both compile.
#pragma once

#include "core/host_device.h"

#include <cmath>

namespace lacuna::formula {

/// torch.optim.SGD without momentum: p ← p − lr·(g + λp).
struct SgdStep {
  float lr, weight_decay, gradient_factor;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient) const {
    parameter -= lr * (gradient_factor * gradient + weight_decay * parameter);
  }
};

/// torch.optim.SGD with momentum μ and dampening 0: b ← μb + d with d = g + λp, then p ← p − lr·b, or
/// p ← p − lr·(d + μb) in Nesterov's form.
template <bool nesterov>
struct SgdMomentumStep {
  float lr, weight_decay, gradient_factor, momentum;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& buffer) const {
    const float direction = gradient_factor * gradient + weight_decay * parameter;
    const float moved = momentum * buffer + direction;
    buffer = moved;
    parameter -= lr * (nesterov ? direction + momentum * moved : moved);
  }
};

/// torch.optim.AdamW (Loshchilov and Hutter 2019, algorithm 2): decay apart from the gradient, ε outside the square
/// root.
struct AdamWStep {
  float decay;            // 1 − lr·λ
  float step_size;        // lr / (1 − β1^t)
  float root_correction;  // 1 / √(1 − β2^t)
  float beta1, beta2, eps, gradient_factor;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& average, float& square_average) const {
    const float g = gradient_factor * gradient;
    const float m = average + (1.0F - beta1) * (g - average);
    const float v = beta2 * square_average + (1.0F - beta2) * g * g;
    average = m;
    square_average = v;
    parameter = decay * parameter - step_size * m / (std::sqrt(v) * root_correction + eps);
  }
};

}  // namespace lacuna::formula
