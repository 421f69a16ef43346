// The transforms of minimal filtering F(m, 3) along one axis (Lavin and Gray 2016, section 4.1), for numbers or
// vectors. Applied along both axes of a square they give F(m x m, 3x3).
#pragma once

namespace lacuna::winograd {

/// Input transforms `tile` inputs to `tile` positions, Weight 3 taps; Output transforms their products to `results`.
/// The weight gradient applies the transposes of G and Aᵀ.
template <int results>
struct Filter;

/// Interpolation at 0, 1, -1 and infinity: sums and halves only, so it is as accurate as a direct sum.
template <>
struct Filter<2> {
  static constexpr int results = 2, tile = 4;

  /// The rows of Bᵀ.
  struct Input {
    static constexpr int from = 4, to = 4;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&d)[4], V (&out)[4]) const {
      out[0] = d[0] - d[2];
      out[1] = d[1] + d[2];
      out[2] = d[2] - d[1];
      out[3] = d[1] - d[3];
    }
  };
  /// G.
  struct Weight {
    static constexpr int from = 3, to = 4;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&g)[3], V (&out)[4]) const {
      const V outer = (g[0] + g[2]) * 0.5F, inner = g[1] * 0.5F;
      out[0] = g[0];
      out[1] = outer + inner;
      out[2] = outer - inner;
      out[3] = g[2];
    }
  };
  /// Gᵀ.
  struct WeightBack {
    static constexpr int from = 4, to = 3;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&u)[4], V (&out)[3]) const {
      const V outer = (u[1] + u[2]) * 0.5F;
      out[0] = u[0] + outer;
      out[1] = (u[1] - u[2]) * 0.5F;
      out[2] = outer + u[3];
    }
  };
  /// Aᵀ.
  struct Output {
    static constexpr int from = 4, to = 2;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&m)[4], V (&out)[2]) const {
      out[0] = m[0] + m[1] + m[2];
      out[1] = m[1] - m[2] - m[3];
    }
  };
  /// A.
  struct OutputBack {
    static constexpr int from = 2, to = 4;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&y)[2], V (&out)[4]) const {
      out[0] = y[0];
      out[1] = y[0] + y[1];
      out[2] = y[0] - y[1];
      out[3] = -y[1];
    }
  };
};

/// Interpolation at 0, ±5/8, ±3/2 and infinity. The paper's ±1 and ±2 need fewer products in the transforms, but errors
/// are several times larger. Both points of a pair share their even and odd parts.
template <>
struct Filter<4> {
  static constexpr int results = 4, tile = 6;
  static constexpr float a = 0.625F, b = 1.5F, a2 = a * a, b2 = b * b, sum = a2 + b2, product = a2 * b2;
  // Reciprocal divisors of G: products of the differences between a point and the others.
  static constexpr float at_zero = 1 / product, at_a = 1 / (2 * a2 * (a2 - b2)), at_b = 1 / (2 * b2 * (b2 - a2));

  /// The rows of Bᵀ.
  struct Input {
    static constexpr int from = 6, to = 6;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&d)[6], V (&out)[6]) const {
      const V even_a = d[4] - b2 * d[2], odd_a = d[3] - b2 * d[1];
      const V even_b = d[4] - a2 * d[2], odd_b = d[3] - a2 * d[1];
      out[0] = product * d[0] + (d[4] - sum * d[2]);
      out[1] = even_a + a * odd_a;
      out[2] = even_a - a * odd_a;
      out[3] = even_b + b * odd_b;
      out[4] = even_b - b * odd_b;
      out[5] = product * d[1] + (d[5] - sum * d[3]);
    }
  };
  /// G.
  struct Weight {
    static constexpr int from = 3, to = 6;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&g)[3], V (&out)[6]) const {
      const V even_a = at_a * (g[0] + a2 * g[2]), odd_a = (at_a * a) * g[1];
      const V even_b = at_b * (g[0] + b2 * g[2]), odd_b = (at_b * b) * g[1];
      out[0] = at_zero * g[0];
      out[1] = even_a + odd_a;
      out[2] = even_a - odd_a;
      out[3] = even_b + odd_b;
      out[4] = even_b - odd_b;
      out[5] = g[2];
    }
  };
  /// Gᵀ.
  struct WeightBack {
    static constexpr int from = 6, to = 3;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&u)[6], V (&out)[3]) const {
      const V even_a = at_a * (u[1] + u[2]), even_b = at_b * (u[3] + u[4]);
      out[0] = at_zero * u[0] + (even_a + even_b);
      out[1] = (at_a * a) * (u[1] - u[2]) + (at_b * b) * (u[3] - u[4]);
      out[2] = a2 * even_a + (b2 * even_b + u[5]);
    }
  };
  /// Aᵀ.
  struct Output {
    static constexpr int from = 6, to = 4;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&m)[6], V (&out)[4]) const {
      const V even_a = m[1] + m[2], odd_a = m[1] - m[2], even_b = m[3] + m[4], odd_b = m[3] - m[4];
      out[0] = m[0] + (even_a + even_b);
      out[1] = a * odd_a + b * odd_b;
      out[2] = a2 * even_a + b2 * even_b;
      out[3] = (a2 * a) * odd_a + ((b2 * b) * odd_b + m[5]);
    }
  };
  /// A.
  struct OutputBack {
    static constexpr int from = 4, to = 6;
    template <class V>
    [[gnu::always_inline]] void operator()(const V (&y)[4], V (&out)[6]) const {
      const V even_a = y[0] + a2 * y[2], odd_a = y[1] + a2 * y[3];
      const V even_b = y[0] + b2 * y[2], odd_b = y[1] + b2 * y[3];
      out[0] = y[0];
      out[1] = even_a + a * odd_a;
      out[2] = even_a - a * odd_a;
      out[3] = even_b + b * odd_b;
      out[4] = even_b - b * odd_b;
      out[5] = y[3];
    }
  };
};

}  // namespace lacuna::winograd
