// How the step and the origin of a group of affine codes are chosen: the same arithmetic on every device.
#pragma once

#include "core/host_device.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace lacuna::quant {

/// The unit of a stored origin, in steps: 2^(bits - 8).
LACUNA_HOST_DEVICE inline double origin_unit(int bits) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + bits - 8) << 52);
}

/// Stored parameters of a group (GroupParams): the bits of a bf16 step, and the origin.
struct FittedParams {
  std::uint16_t step;
  std::int16_t origin;
};
/// The same, and the line from values to codes in units of 2^-16 (EncodingLine).
struct FittedGroup {
  FittedParams params;
  double line_origin, line_factor;
  bool wide;
};

/// Chooses steps and origins for codes of one width: the smallest bf16 step such that the codes span [min, max] and the
/// origin fits 16 bits.
class GroupFitter {
 public:
  LACUNA_HOST_DEVICE explicit GroupFitter(int bits)
      : bits_(bits),
        unit_(origin_unit(bits)),
        steps_per_range_(1 / ((1 << bits) - 1 - unit_)),  // the origin may lie one unit below the minimum
        steps_per_offset_(1 / (max_origin * unit_)) {}

  /// A finite range. The parameters count if it is not a single value; the line holds for both.
#ifndef __CUDACC__
  [[gnu::always_inline]]
#endif
  LACUNA_HOST_DEVICE inline FittedGroup
  varying(float min_value, float max_value) const {
    const double min = static_cast<double>(min_value), max = static_cast<double>(max_value);
    const std::uint32_t bits = rounded_up(larger((max - min) * steps_per_range_, std::abs(min) * steps_per_offset_));
    const auto step = static_cast<double>(std::bit_cast<float>(bits << 16));
    const double origin = std::floor(min / (step > 0 ? step * unit_ : 1.0));
    const bool varies = min < max;
    return {{static_cast<std::uint16_t>(bits), static_cast<std::int16_t>(origin)},
            varies ? step * (origin * unit_) : 0.0,
            varies ? 65536 / step : 0.0,
            varies && (larger(std::abs(min), std::abs(max)) > 0x1p125 || step < 0x1p-110)};
  }
  /// A single value. All codes will be 0: the origin holds the leading 15 bits of the value, the step is a power of
  /// two.
  LACUNA_HOST_DEVICE FittedParams constant(double value) const {
    if (value == 0) return {};
    int exponent = 0;
    std::frexp(value, &exponent);  // |value| < 2^exponent
    exponent = exponent - 15 + 8 - bits_;
    if (exponent < min_exponent) exponent = min_exponent;
    double units = std::nearbyint(std::ldexp(value, 8 - bits_ - exponent));
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
    if (min == max) group.params = constant(static_cast<double>(min));
    return group;
  }

 private:
  static constexpr int max_origin = 32767;
  static constexpr int min_exponent = -133;  // of a bf16

  LACUNA_HOST_DEVICE static double larger(double a, double b) { return a < b ? b : a; }
  /// Bits of the smallest bf16 that is not below a positive value; of the largest finite bf16 for values beyond it.
  LACUNA_HOST_DEVICE static std::uint32_t rounded_up(double value) {
    constexpr double most = 0x1.fffffep127;  // finite f32
    const auto nearest = static_cast<float>(most < value ? most : value);
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest) + (static_cast<double>(nearest) < value ? 1U : 0U);
    const std::uint32_t half = (bits + 0xffffU) >> 16;
    return half < 0x7f7fU ? half : 0x7f7fU;
  }

  int bits_;
  double unit_;  // of the origin, in steps
  double steps_per_range_, steps_per_offset_;
};

}  // namespace lacuna::quant
