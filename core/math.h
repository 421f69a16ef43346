// Elementary functions for formulas: branch-free in float, so that loops over them become vector code; the standard
// library's in double, which the gradient checks use.
#pragma once

#include "core/host_device.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace lacuna::math {

LACUNA_HOST_DEVICE inline double exp(double x) { return std::exp(x); }
LACUNA_HOST_DEVICE inline double erf(double x) { return std::erf(x); }
LACUNA_HOST_DEVICE inline double tanh(double x) { return std::tanh(x); }

/// e^x within 2 units in the last place; 0 below -87.3, infinity above 88.7, NaN stays NaN.
LACUNA_HOST_DEVICE inline float exp(float x) {
  const float clamped = x < -87.33654F ? -87.33654F : (x > 88.72283F ? 88.72283F : x);
  // The magic constant puts the nearest integer into the low bits of a float's mantissa.
  const float shifted = clamped * 1.44269504F + 12582912.0F;
  const float n = shifted - 12582912.0F;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  // 2^n in two factors: n can be 128, whose power of two is no float.
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - 0x4b400000;
  const std::int32_t half = exponent >> 1;
  const float scaled = p * std::bit_cast<float>((half + 127) << 23) *
                       std::bit_cast<float>((exponent - half + 127) << 23);
  const float bounded = x < -87.33654F ? 0.0F : (x > 88.72283F ? INFINITY : scaled);
  return x == x ? bounded : x;
}

/// Error function, absolute error below 2e-7 (Abramowitz and Stegun 7.1.26 form refined; see tests/core).
LACUNA_HOST_DEVICE inline float erf(float x) {
  // |x| < 1: odd polynomial; above: 1 - e^(-x²) · P(1 / (1 + p|x|)) (A&S 7.1.26, whose error is 1.5e-7).
  const float a = x < 0.0F ? -x : x;
  const float t = 1.0F / (1.0F + 0.3275911F * a);
  const float tail = ((((1.061405429F * t - 1.453152027F) * t + 1.421413741F) * t - 0.284496736F) * t + 0.254829592F) * t;
  const float large = 1.0F - tail * exp(-a * a);
  const float s = a * a;
  float p = -1.0F / 9360.0F * s + 1.0F / 1320.0F;
  p = p * s - 1.0F / 216.0F;
  p = p * s + 1.0F / 42.0F;
  p = p * s - 1.0F / 10.0F;
  p = p * s + 1.0F / 3.0F;
  const float small = a * 1.12837917F * (1.0F - s * p);
  const float magnitude = a < 0.5F ? small : large;
  return x < 0.0F ? -magnitude : magnitude;
}

/// Hyperbolic tangent, absolute error below 2e-7.
LACUNA_HOST_DEVICE inline float tanh(float x) {
  const float a = x < 0.0F ? -x : x;
  const float e = exp(-2.0F * a);
  const float large = (1.0F - e) / (1.0F + e);
  const float s = a * a;
  const float small = a * (1.0F - s * (1.0F / 3.0F - s * (2.0F / 15.0F - s * (17.0F / 315.0F))));
  const float magnitude = a < 0.1F ? small : large;
  return x < 0.0F ? -magnitude : (x == x ? magnitude : x);
}

/// 1 / (1 + e^-x).
template <class T>
LACUNA_HOST_DEVICE inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

}  // namespace lacuna::math
