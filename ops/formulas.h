// Formulas as functors: one text that the host's loops and a device's kernels both compile.
#pragma once

#include "core/math.h"

namespace lacuna::formula {

/// x·Φ(x) with Φ the normal distribution function.
struct GeluErf {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x * math::normal(x).cdf;
  }
};
/// dy·(Φ(x) + x·φ(x)).
struct GeluErfBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    const math::Normal<T> normal = math::normal(x);
    return dy * (normal.cdf + x * normal.pdf);
  }
};
/// x/2·(1 + tanh z) = x·σ(2z) with z = √(2/π)·(x + 0.044715·x³).
struct GeluTanh {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x * math::sigmoid(x * (T(1.5957691216057308) + T(0.071354816272600250) * (x * x)));
  }
};
struct GeluTanhBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    const T s = math::sigmoid(x * (T(1.5957691216057308) + T(0.071354816272600250) * (x * x)));
    const T slope = T(1.5957691216057308) + T(0.21406444881780075) * (x * x);  // of 2z
    return dy * (s + x * (s * (T(1) - s)) * slope);
  }
};
struct Relu {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x <= T(0) ? T(0) : x;  // NaN stays NaN
  }
};
/// dy where y, the output, is positive.
struct ReluBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T y) const {
    return y > T(0) ? dy : T(0);
  }
};
struct Silu {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x * math::sigmoid(x);
  }
};
struct SiluBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    const T s = math::sigmoid(x);
    return dy * s * (T(1) + x * (T(1) - s));
  }
};
/// x·r(x) with r(x) = min(max(x + 3, 0), 6) / 6.
struct HardSwish {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x <= T(-3) ? T(0) : x >= T(3) ? x : x * (x + T(3)) / T(6);
  }
};
/// The slope is 0 at -3 and 1 at 3.
struct HardSwishBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    return x <= T(-3) ? T(0) : x >= T(3) ? dy : dy * (x / T(3) + T(0.5));
  }
};
/// min(max(x + 3, 0), 6) / 6.
struct HardSigmoid {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x <= T(-3) ? T(0) : x >= T(3) ? T(1) : (x + T(3)) / T(6);
  }
};
/// The slope is 0 at both ends.
struct HardSigmoidBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    return x <= T(-3) || x >= T(3) ? T(0) : dy / T(6);
  }
};
/// min(max(x, 0), 6).
struct Relu6 {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x <= T(0) ? T(0) : x >= T(6) ? T(6) : x;  // NaN stays NaN
  }
};
/// The slope is 0 at both ends.
struct Relu6Backward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    return x <= T(0) || x >= T(6) ? T(0) : dy;
  }
};
/// As OpenAI's CLIP has it.
inline constexpr double quick_gelu_steepness = 1.702;
struct QuickGelu {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x * math::sigmoid(T(quick_gelu_steepness) * x);
  }
};
struct QuickGeluBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    const T steep = T(quick_gelu_steepness) * x, s = math::sigmoid(steep);
    return dy * s * (T(1) + steep * (T(1) - s));
  }
};
struct Sigmoid {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return math::sigmoid(x);
  }
};
/// dy·y·(1 − y), y the output.
struct SigmoidBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T y) const {
    return dy * y * (T(1) - y);
  }
};
struct Tanh {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return math::tanh(x);
  }
};
/// dy·(1 − y²), y the output.
struct TanhBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T y) const {
    return dy * (T(1) - y * y);
  }
};
/// x, and e^x - 1 below 0.
struct Elu {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x > T(0) ? x : math::exp(x) - T(1);
  }
};
/// dy, times e^x below 0.
struct EluBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    return x > T(0) ? dy : dy * math::exp(x);
  }
};
/// A running statistic moves towards what one batch shows.
struct Follow {
  float momentum;
  float factor;  // of the batch's value: from the biased variance to the unbiased one
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T running, T value) const {
    return (1.0F - momentum) * running + momentum * (factor * value);
  }
};
struct Add {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Mul {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T a, T b) const {
    return a * b;
  }
};
struct Scale {
  double factor;
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return T(factor) * x;
  }
};

}  // namespace lacuna::formula
