// How the step and the origin of a group of affine codes are chosen: the same arithmetic on every device.
#pragma once

#include "core/host_device.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace lacuna::quant {

/// The unit of a stored origin, in steps: 2^(bits - 8).
LACUNA_HOST_DEVICE inline float origin_unit(int bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(127 + bits - 8) << 23);
}

/// Stored parameters of a group (GroupParams): the bits of a bf16 step, and the origin.
struct FittedParams {
  std::uint16_t step;
  std::int16_t origin;
};
/// The same, and the line from values to codes in units of 2^-16 (EncodingLine).
struct FittedGroup {
  FittedParams params;
  float line_origin, line_factor, line_scale;
};

/// Chooses steps and origins for codes of one width: the smallest bf16 step such that the codes span [min, max], but
/// for the rounding of the range to f32, and the origin fits 16 bits. All in f32, which GPUs compute fast: products of
/// a step, a unit and an origin are exact.
class GroupFitter {
 public:
  LACUNA_HOST_DEVICE explicit GroupFitter(int bits)
      : bits_(bits),
        unit_(origin_unit(bits)),
        range_(static_cast<float>((1 << bits) - 1) - unit_),
        offset_(static_cast<float>(max_origin) * unit_) {}

  /// A finite range. The parameters count if it is not a single value; the line holds for both.
#ifndef __CUDACC__
  [[gnu::always_inline]]
#endif
  LACUNA_HOST_DEVICE inline FittedGroup
  varying(float min_value, float max_value) const {
    // Differences and factors of scaled values stay within f32.
    const float magnitude = larger(std::abs(min_value), std::abs(max_value));
    const bool large = magnitude > 0x1p100F, small = magnitude < 0x1p-60F;
    const float scale = large ? 0x1p-64F : small ? 0x1p64F : 1.0F;
    const float inverse = large ? 0x1p64F : small ? 0x1p-64F : 1.0F;
    const float min = min_value * scale, max = max_value * scale;
    const float wanted = larger((max - min) / range_, std::abs(min) / offset_);
    const std::uint32_t bits = rounded_up(wanted, scale, inverse);
    const float step = std::bit_cast<float>(bits << 16) * scale, unit = step * unit_;
    float origin = std::floor(min / (step > 0 ? unit : 1.0F));
    origin -= origin * unit > min ? 1.0F : 0.0F;  // the quotient was rounded up to a whole number
    const bool varies = min < max;
    return {{static_cast<std::uint16_t>(bits), static_cast<std::int16_t>(origin)},
            varies ? origin * unit : 0.0F,
            varies ? 65536 / step : 0.0F,
            varies ? scale : 1.0F};
  }
  /// A single value. All codes will be 0: the origin holds the leading 15 bits of the value, the step is a power of
  /// two.
  LACUNA_HOST_DEVICE FittedParams constant(float value) const {
    if (value == 0) return {};
    int exponent = 0;
    std::frexp(value, &exponent);  // |value| < 2^exponent
    exponent = exponent - 15 + 8 - bits_;
    if (exponent < min_exponent) exponent = min_exponent;
    float units = std::nearbyint(std::ldexp(value, 8 - bits_ - exponent));
    if (units > max_origin) {
      ++exponent;
      units /= 2;
    }
    const auto step = std::bit_cast<std::uint32_t>(-std::ldexp(1.0F, exponent));
    return {static_cast<std::uint16_t>(step >> 16), static_cast<std::int16_t>(units)};
  }
  /// Any finite range.
  LACUNA_HOST_DEVICE FittedGroup fit(float min, float max) const {
    FittedGroup group = varying(min, max);
    if (min == max) group.params = constant(min);
    return group;
  }

 private:
  static constexpr int max_origin = 32767;
  static constexpr int min_exponent = -133;  // of a bf16

  LACUNA_HOST_DEVICE static float larger(float a, float b) { return a < b ? b : a; }
  /// Bits of the smallest bf16 that is not below value · inverse, value >= 0; of the largest finite bf16 beyond it.
  LACUNA_HOST_DEVICE static std::uint32_t rounded_up(float value, float scale, float inverse) {
    const float nearest = value * inverse;  // rounded if it is below the normal numbers
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest) + (nearest * scale < value ? 1U : 0U);
    const std::uint32_t half = (bits + 0xffffU) >> 16;
    return half < 0x7f7fU ? half : 0x7f7fU;
  }

  int bits_;
  // In steps:
  float unit_;  // of the origin
  float range_,
      offset_;  // the largest range, as the origin may lie one unit below the minimum, and the largest minimum
};

}  // namespace lacuna::quant
