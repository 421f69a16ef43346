// Formulas that several rules (optim/rules.h) or kernels share, on one element each: the same on every device.
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

/// A row's or column's second moment: the running mean of its mean square.
struct FactoredMoment {
  float keep, take;  // take: 1 − keep
  LACUNA_HOST_DEVICE float operator()(float moment, double sum, std::int64_t count) const {
    return keep * moment + take * static_cast<float>(sum / static_cast<double>(count));
  }
};

/// Adafactor's update g / √v of a matrix, whose v is row · column / mean of the rows. row_share: row / mean.
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
