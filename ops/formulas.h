// Formulas as functors: one text that the host's loops and a device's kernels both compile.
#pragma once

#include "core/math.h"

namespace lacuna::formula {

/// What the mean of a curve over errors of some variance, spread evenly, is more than the curve by, to second order,
/// for each unit of its second derivative. Errors as wide as the curve's bend are beyond that: what is taken off for
/// them is held.
template <class T, class V>
LACUNA_HOST_DEVICE T half_variance(V variance) {
  return T(0.5) * (variance < V(0.5) ? static_cast<T>(variance) : T(0.5));
}
/// The second derivative of x·Φ(x), φ(x)·(2 − x²), and the third; zero far out, where x² is beyond what floats hold.
template <class T>
LACUNA_HOST_DEVICE T gelu_second(T x, T density) {
  return T(2) * density - x * density * x;
}
template <class T>
LACUNA_HOST_DEVICE T gelu_third(T x, T density) {
  return x * density * x * x - T(4) * x * density;
}

/// x·Φ(x) with Φ the normal distribution function. With a variance: x is off by so much, and what is wanted is the
/// value at the point itself, but for effects of fourth order.
struct GeluErf {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x * math::normal(x).cdf;
  }
  template <class T, class V>
  LACUNA_HOST_DEVICE T operator()(T x, V variance) const {
    const math::Normal<T> normal = math::normal(x);
    return x * normal.cdf - half_variance<T>(variance) * gelu_second(x, normal.pdf);
  }
};
/// dy·(Φ(x) + x·φ(x)).
struct GeluErfBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    const math::Normal<T> normal = math::normal(x);
    return dy * (normal.cdf + x * normal.pdf);
  }
  template <class T, class V>
  LACUNA_HOST_DEVICE T operator()(T dy, T x, V variance) const {
    const math::Normal<T> normal = math::normal(x);
    const T slope = normal.cdf + x * normal.pdf;
    return dy * (slope - half_variance<T>(variance) * gelu_third(x, normal.pdf));
  }
};
/// x/2·(1 + tanh z) = x·σ(2z) with z = √(2/π)·(x + 0.044715·x³). It bends as the form with Φ does.
struct GeluTanh {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T x) const {
    return x * math::sigmoid(x * (T(1.5957691216057308) + T(0.071354816272600250) * (x * x)));
  }
  template <class T, class V>
  LACUNA_HOST_DEVICE T operator()(T x, V variance) const {
    const T y = (*this)(x);
    return y - half_variance<T>(variance) * gelu_second(x, math::normal(x).pdf);
  }
};
struct GeluTanhBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    const T s = math::sigmoid(x * (T(1.5957691216057308) + T(0.071354816272600250) * (x * x)));
    const T slope = T(1.5957691216057308) + T(0.21406444881780075) * (x * x);  // of 2z
    return dy * (s + x * (s * (T(1) - s)) * slope);
  }
  template <class T, class V>
  LACUNA_HOST_DEVICE T operator()(T dy, T x, V variance) const {
    const T dx = (*this)(dy, x);
    return dx - dy * half_variance<T>(variance) * gelu_third(x, math::normal(x).pdf);
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
  template <class T, class V>
  LACUNA_HOST_DEVICE T operator()(T x, V variance) const {
    const T s = math::sigmoid(x), slope = s * (T(1) - s);  // of σ
    return x * s - half_variance<T>(variance) * slope * (T(2) + x * (T(1) - T(2) * s));
  }
};
struct SiluBackward {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T dy, T x) const {
    const T s = math::sigmoid(x);
    return dy * s * (T(1) + x * (T(1) - s));
  }
  template <class T, class V>
  LACUNA_HOST_DEVICE T operator()(T dy, T x, V variance) const {
    const T s = math::sigmoid(x), slope = s * (T(1) - s);  // of σ
    const T bend = slope * (T(3) * (T(1) - T(2) * s) + x * (T(1) - T(6) * slope));
    return dy * (s + x * slope - half_variance<T>(variance) * bend);
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
  template <class T, class V>
  LACUNA_HOST_DEVICE T operator()(T dy, T y, V variance) const {
    return dy * (y * (T(1) - y) + static_cast<T>(variance));
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
  template <class T, class V>
  LACUNA_HOST_DEVICE T operator()(T dy, T y, V variance) const {
    return dy * (T(1) - y * y + static_cast<T>(variance));
  }
};
/// A running statistic moves towards what one batch shows.
struct Follow {
  float momentum;
  float factor;  // of the batch's value: from the biased variance to the unbiased one
  LACUNA_HOST_DEVICE float operator()(float running, float value) const {
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
