// Elementary functions for formulas. The float versions are branch-free, so that loops over them vectorize; the double
// versions, which gradient checks use, are the standard library's.
#pragma once

#include "core/host_device.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace lacuna::math {

// nvcc contracts products and sums to fused multiply-adds at its own choice, so two kernels with the same formula may
// differ in a bit. These functions fix the choice; on the CPU they are the plain expressions.

/// a·b + c, rounded once.
LACUNA_HOST_DEVICE inline float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}
/// a·b, rounded before anything is added to it.
LACUNA_HOST_DEVICE inline float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// a / b within 2 units in the last place, for b in [2^-126, 2^126].
LACUNA_HOST_DEVICE inline float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdividef(a, b);  // exact division takes a GPU ten instructions
#else
  return a / b;
#endif
}

LACUNA_HOST_DEVICE inline double exp(double x) { return std::exp(x); }
LACUNA_HOST_DEVICE inline double tanh(double x) { return std::tanh(x); }

/// e^x within 2 units in the last place; 0 below -87.33, infinity above 88.72, NaN stays NaN.
LACUNA_HOST_DEVICE inline float exp(float x) {
  // Adding 1.5·2^23 leaves n, the integer nearest to x / ln 2, in the low bits of the mantissa.
  const float shifted = x * 1.44269504F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float r = fused(n, 2.12194440e-4F, fused(n, -0.693359375F, x));  // ln 2 in two parts; x may be a product
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  // Times 2^n: the shift drops the constant's own bits and moves n to the exponent of p.
  const float scaled =
      std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23));
  const float bounded = x <= 88.72283F ? scaled : x * INFINITY;
  return x < -87.33654F ? 0.0F : bounded;
}

/// Hyperbolic tangent, absolute error below 1e-7.
LACUNA_HOST_DEVICE inline float tanh(float x) {
  const float a = x < 0.0F ? -x : x;
  const float large = 1.0F - 2.0F / (exp(2.0F * a) + 1.0F);
  const float s = a * a;  // tanh a = a + a³·P(a²), relative minimax on [0, 0.625]
  float p = -6.096935606e-3F;
  p = p * s + 2.09973523e-2F;
  p = p * s - 5.385095193e-2F;
  p = p * s + 1.333277007e-1F;
  p = p * s - 3.333332895e-1F;
  const float small = p * s * a + a;
  const float magnitude = a < 0.625F ? small : large;
  return x < 0.0F ? -magnitude : magnitude;
}

/// The standard normal distribution at a point: cumulative Φ and density φ.
template <class T>
struct Normal {
  T cdf, pdf;
};
LACUNA_HOST_DEVICE inline Normal<double> normal(double x) {
  return {0.5 * std::erfc(-0.70710678118654752 * x), 0.39894228040143268 * std::exp(-0.5 * x * x)};
}
/// Absolute errors below 1.5e-7. For x < 0, Φ has 5 correct digits, which 1 + erf(x / √2) would lose.
LACUNA_HOST_DEVICE inline Normal<float> normal(float x) {
  const float magnitude = x < 0.0F ? -x : x;
  const float a = magnitude > 13.0F ? 13.0F : magnitude;
  // e^(-a²/2) = 2^s; the integer part of s goes to the exponent, as in exp.
  const float s = rounded_product(-0.72134752F * a, a);
  const float shifted = s + 12582912.0F;
  const float r = s - (shifted - 12582912.0F);
  float power = 1.333355353e-3F;
  power = power * r + 9.666245851e-3F;
  power = power * r + 5.550500164e-2F;
  power = power * r + 2.402235134e-1F;
  power = power * r + 6.931471435e-1F;
  power = power * r + 1.0F;
  const float scaled =
      std::bit_cast<float>(std::bit_cast<std::uint32_t>(power) + (std::bit_cast<std::uint32_t>(shifted) << 23));
  const float e = magnitude > 13.0F ? 0.0F : scaled;
  // Φ(-a) / e^(-a²/2) = (1 + u)·P(u) with u = -0.345 a / (1 + 0.345 a): relative minimax on [0, 13.3].
  const float b = 0.345F * a;
  const float u = quotient(-b, 1.0F + b);
  float p = -0.0284271743F;
  p = p * u - 0.0819296067F;
  p = p * u - 0.049115862F;
  p = p * u + 0.0215221532F;
  p = p * u - 0.0711551617F;
  p = p * u - 0.0946405422F;
  p = p * u + 0.287621776F;
  p = p * u + 0.656352439F;
  p = p * u + 0.49999999F;
  const float tail = rounded_product(e, p * u + p);
  return {x < 0.0F ? tail : 1.0F - tail, 0.39894228F * e};
}

/// 1 / (1 + e^-x).
template <class T>
LACUNA_HOST_DEVICE inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

}  // namespace lacuna::math
