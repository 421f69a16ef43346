// Formulas of losses over classes, for host and device code.
#pragma once

#include "core/math.h"

#include <cmath>
#include <cstdint>

namespace lacuna::formula {

/// cap · tanh(x / cap): logits that are bent towards a bound (Gemma 2).
struct SoftCap {
  double cap;
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return T(cap) * math::tanh(x / T(cap));
  }
};
/// 1 / cap, or 0 where there is none.
template <class C>
C bound_of_cap(double soft_cap) {
  return soft_cap == 0 ? C(0) : static_cast<C>(1 / soft_cap);
}
/// The derivative of a soft cap where it has the value `capped`.
template <class C>
LACUNA_HOST_DEVICE C slope_of_cap(C bound, C capped) {
  return C(1) - (bound * capped) * (bound * capped);
}

/// Cross entropy of a row of `classes` logits against a smoothed label, from its sums (ops/losses/class_sums.h).
template <class C>
LACUNA_HOST_DEVICE C class_loss(double label_smoothing, std::int64_t classes, C largest, C exponentials, C logits,
                                C of_label) {
  const C log_sum = std::log(exponentials), smoothing = static_cast<C>(label_smoothing);
  const C loss = (largest - of_label) + log_sum;
  if (smoothing == 0) return loss;
  return (C(1) - smoothing) * loss + smoothing * ((largest - logits / static_cast<C>(classes)) + log_sum);
}

}  // namespace lacuna::formula
