// Formulas of the losses of detection, for the CPU and for .cu files.
#pragma once

#include "core/math.h"

namespace lacuna::formula {

LACUNA_HOST_DEVICE inline double log_of_one_and(double x) { return std::log1p(x); }
/// log(1 + x) for x in [0, 1] within 3 units in the last place, branch-free: twice the series of the inverse hyperbolic
/// tangent of x / (2 + x), which is a third at most.
LACUNA_HOST_DEVICE inline float log_of_one_and(float x) {
  const float t = x / (2 + x), s = t * t;
  float p = 1.0F / 13;
  p = p * s + 1.0F / 11;
  p = p * s + 1.0F / 9;
  p = p * s + 1.0F / 7;
  p = p * s + 1.0F / 5;
  p = p * s + 1.0F / 3;
  return 2 * (t + t * (s * p));
}

/// -α_t · (1 - p_t)^γ · log p_t of a logit, where p_t is the probability of the truth (Lin et al. 2017).
template <class C>
struct Focal {
  C alpha, gamma;

  LACUNA_HOST_DEVICE C loss(C logit, bool is_class) const {
    const Terms terms(logit, is_class);
    return (is_class ? alpha : 1 - alpha) * power(terms.wrong) * terms.cost;
  }
  LACUNA_HOST_DEVICE C slope(C logit, bool is_class) const {
    const Terms terms(logit, is_class);
    const C size =
        (is_class ? alpha : 1 - alpha) * power(terms.wrong) * (terms.wrong + gamma * (1 - terms.wrong) * terms.cost);
    return is_class ? -size : size;
  }

 private:
  /// The probability of the other answer and -log of that of the truth.
  struct Terms {
    C wrong, cost;
    LACUNA_HOST_DEVICE Terms(C logit, bool is_class) {
      const C against = is_class ? -logit : logit;
      const C rest = math::exp(against < 0 ? against : -against);
      wrong = (against < 0 ? rest : C(1)) / (1 + rest);
      cost = (against > 0 ? against : C(0)) + log_of_one_and(rest);
    }
  };
  LACUNA_HOST_DEVICE C power(C wrong) const {
    using std::pow;
    return gamma == 2 ? wrong * wrong : pow(wrong, gamma);
  }
};

/// Half of d² / β below β, |d| - β / 2 from there on; β = 0: |d|.
template <class C>
struct SmoothL1 {
  C beta;

  LACUNA_HOST_DEVICE C loss(C difference) const {
    const C size = difference < 0 ? -difference : difference;
    return size < beta ? difference * difference / (2 * beta) : size - beta / 2;
  }
  LACUNA_HOST_DEVICE C slope(C difference) const {
    const C size = difference < 0 ? -difference : difference;
    if (size < beta) return difference / beta;
    return difference > 0 ? C(1) : difference < 0 ? C(-1) : C(0);
  }
};

}  // namespace lacuna::formula
