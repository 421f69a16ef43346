// Update rules as functors on one element, shared by the CPU's loops and device
// kernels.
#pragma once

#include "core/host_device.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace lacuna::formula {

/// A stored gradient times a factor (clipping by norm), clamped to a limit
/// (clipping by value).
struct CountedGradient {
  float factor = 1;
  float limit = std::numeric_limits<float>::infinity();
  LACUNA_HOST_DEVICE float operator()(float gradient) const {
    const float g = factor * gradient;
    return g > limit ? limit : g < -limit ? -limit : g;
  }
};

/// torch.optim.SGD without momentum: p ← p − lr·(g + λp).
struct SgdStep {
  CountedGradient counted;
  float lr, weight_decay;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient) const {
    parameter -= lr * (counted(gradient) + weight_decay * parameter);
  }
};

/// torch.optim.SGD with momentum μ and dampening 0: b ← μb + d with d = g + λp,
/// then p ← p − lr·b, or p ← p − lr·(d + μb) in Nesterov's form.
template <bool nesterov>
struct SgdMomentumStep {
  CountedGradient counted;
  float lr, weight_decay, momentum;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& buffer) const {
    const float direction = counted(gradient) + weight_decay * parameter;
    const float moved = momentum * buffer + direction;
    buffer = moved;
    parameter -= lr * (nesterov ? direction + momentum * moved : moved);
  }
};

/// The running means of Adam (Kingma and Ba 2015, algorithm 1) and their
/// bias-corrected quotient.
struct AdamMoments {
  float take1, beta2, take2, eps;  // take: 1 − β, rounded once
  float correction;                // 1 / (1 − β1^t)
  float root_correction;           // 1 / √(1 − β2^t)
  LACUNA_HOST_DEVICE float operator()(float gradient, float& average, float& square_average) const {
    const float m = average + take1 * (gradient - average);
    const float v = beta2 * square_average + take2 * gradient * gradient;
    average = m;
    square_average = v;
    return correction * m / (std::sqrt(v) * root_correction + eps);
  }
};

/// torch.optim.Adam with λ in the gradient; torch.optim.AdamW (Loshchilov and
/// Hutter 2019, algorithm 2) with the decoupled decay 1 − lr·λ.
struct AdamStep {
  CountedGradient counted;
  AdamMoments moments;
  float lr;
  float coupled_decay;  // λ of Adam, 0 of AdamW
  float decay;          // 1 of Adam, 1 − lr·λ of AdamW
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& average, float& square_average) const {
    const float g = counted(gradient) + coupled_decay * parameter;
    parameter = decay * parameter - lr * moments(g, average, square_average);
  }
};

/// Adan (Xie et al. 2022, algorithm 1) as implemented by its authors and timm:
/// β is the share that is kept; decay by division, or with `no_prox` by 1 −
/// lr·λ beforehand.
struct AdanStep {
  CountedGradient counted;
  float take1, beta2, take2, beta3, take3, eps;  // take: 1 − β
  float mean_size;                               // lr / (1 − β1^t)
  float difference_size;                         // lr·β2 / (1 − β2^t)
  float root_correction;                         // 1 / √(1 − β3^t)
  float decay_before, decay_after;
  float has_previous;  // 0 in the first step, where the difference of gradients
                       // counts as 0
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& average, float& difference_average,
                                     float& square_average, float& previous) const {
    const float g = counted(gradient);
    const float difference = has_previous * (g - previous);
    const float ahead = g + beta2 * difference;
    const float m = average + take1 * (g - average);
    const float v = beta2 * difference_average + take2 * difference;
    const float n = beta3 * square_average + take3 * ahead * ahead;
    average = m;
    difference_average = v;
    square_average = n;
    previous = g;
    const float denominator = std::sqrt(n) * root_correction + eps;
    parameter = decay_after * (decay_before * parameter - (mean_size * m + difference_size * v) / denominator);
  }
};

/// Lion (Chen et al. 2023, algorithm 2): p ← (1 − lr·λ)·p − lr·sign(β1·m + (1 −
/// β1)·g), then m ← β2·m + (1 − β2)·g.
struct LionStep {
  CountedGradient counted;
  float lr, decay, take1, take2;  // take: 1 − β
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& average) const {
    const float g = counted(gradient);
    const float direction = average + take1 * (g - average);
    const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : direction;  // NaN stays NaN
    parameter = decay * parameter - lr * sign;
    average += take2 * (g - average);
  }
};

/// torch.optim.Adagrad (Duchi et al. 2011): s ← s + d² with d = g + λp, then p ← p − lr·d / (√s + ε).
struct AdagradStep {
  CountedGradient counted;
  float lr, weight_decay, eps;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float gradient, float& sum) const {
    const float d = counted(gradient) + weight_decay * parameter;
    const float s = sum + d * d;
    sum = s;
    parameter -= lr * d / (std::sqrt(s) + eps);
  }
};

/// First half of LAMB (You et al. 2020, algorithm 2): the update m̂ / (√v̂ + ε) +
/// λp, stored in the gradient's memory until its norm is known.
struct LambUpdate {
  CountedGradient counted;
  AdamMoments moments;
  float weight_decay;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float& gradient, float& average, float& square_average) const {
    gradient = moments(counted(gradient), average, square_average) + weight_decay * parameter;
  }
};

/// Second half: p ← p − size·u.
struct LambApply {
  float size;  // lr times the trust ratio
  LACUNA_HOST_DEVICE void operator()(float& parameter, float update) const { parameter -= size * update; }
};

/// First pass of torch.optim.Muon: b ← μb + (1 − μ)g; the direction, b or in Nesterov's form μb + (1 − μ)g, is stored
/// in the gradient's memory.
struct MuonMomentum {
  CountedGradient counted;
  float take;   // 1 − μ
  float ahead;  // 1 − μ in Nesterov's form, otherwise 0
  LACUNA_HOST_DEVICE void operator()(float&, float& gradient, float& buffer) const {
    const float g = counted(gradient);
    const float moved = buffer + take * (g - buffer);
    buffer = moved;
    gradient = moved + ahead * (g - moved);
  }
};

/// Second pass: the direction is divided by its norm.
struct MuonNormalize {
  float factor;
  LACUNA_HOST_DEVICE void operator()(float&, float& direction) const { direction *= factor; }
};

/// The factor aI + bA + cA² of a Newton-Schulz iteration, without aI. A: the direction times its transpose.
struct NewtonSchulz {
  float b, c;
  LACUNA_HOST_DEVICE float operator()(float gram, float square) const { return b * gram + c * square; }
};

/// Last pass: p ← (1 − lr·λ)·p − size·u.
struct DecayedStep {
  float decay, size;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float update) const {
    parameter = decay * parameter - size * update;
  }
};

/// The counted gradient takes the place of the stored one.
struct CountGradient {
  CountedGradient counted;
  LACUNA_HOST_DEVICE void operator()(float&, float& gradient) const { gradient = counted(gradient); }
};

/// Adafactor (Shazeer and Stern 2018) as transformers.Adafactor, for a vector: v ← βv + (1 − β)(g² + ε), and the update
/// g / √v is stored in the gradient's memory.
struct AdafactorMoment {
  CountedGradient counted;
  float keep, take, eps;  // take: 1 − keep
  LACUNA_HOST_DEVICE void operator()(float&, float& gradient, float& square_average) const {
    const float g = counted(gradient);
    const float v = keep * square_average + take * (g * g + eps);
    square_average = v;
    gradient = g / std::sqrt(v);
  }
};

/// A row's or column's second moment: the running mean of its mean square.
struct FactoredMoment {
  float keep, take;  // take: 1 − keep
  LACUNA_HOST_DEVICE float operator()(float moment, double sum, std::int64_t count) const {
    return keep * moment + take * static_cast<float>(sum / static_cast<double>(count));
  }
};

/// The same for a matrix, whose v is row · column / mean of the rows. row_share: row / mean.
LACUNA_HOST_DEVICE inline float factored_update(float gradient, float row_share, float column) {
  return gradient / (std::sqrt(row_share) * std::sqrt(column));
}

/// Last pass with a running mean of updates: m ← βm + (1 − β)·size·u, then p ← decay·p − m.
struct AdafactorMomentumStep {
  float decay, size, keep, take;
  LACUNA_HOST_DEVICE void operator()(float& parameter, float update, float& average) const {
    const float m = keep * average + take * (size * update);
    average = m;
    parameter = decay * parameter - m;
  }
};

/// min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; NaN if
/// the norm is NaN.
LACUNA_HOST_DEVICE inline double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor;
}
/// The same of gradients that are `scale` times as large as they count.
LACUNA_HOST_DEVICE inline double clip_factor(double scaled_norm, double max_norm, double scale) {
  return clip_factor(scaled_norm / scale, max_norm) / scale;
}

/// Exponential moving average. take: 1 − keep, rounded once.
struct AverageStep {
  float keep, take;
  LACUNA_HOST_DEVICE float operator()(float average, float value) const { return keep * average + take * value; }
};
inline AverageStep average_step(double decay) {
  return {.keep = static_cast<float>(decay), .take = static_cast<float>(1 - decay)};
}

}  // namespace lacuna::formula
