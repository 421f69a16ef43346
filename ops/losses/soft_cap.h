// Logits that are bent towards a bound (Gemma 2); for host and device code.
#pragma once

#include "core/math.h"

namespace lacuna::formula {

/// cap · tanh(x / cap).
struct SoftCap {
  double cap;
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return T(cap) * math::tanh(x / T(cap));
  }
};

}  // namespace lacuna::formula
