// How a value of an optimizer's state is stored: the same on every device.
#pragma once

#include "core/host_device.h"
#include "core/number.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lacuna {

enum class StatePrecision : std::uint8_t { f32, bf16, int8 };  // from fine to coarse

/// Range of a state's values, which decides how 8 bits represent them.
enum class StateValues : std::uint8_t {
  any_sign,  // uniform steps of the signed square root: fine near zero, and zero
             // is exact
  no_sign,   // uniform steps of the logarithm: bounded relative error, and no
             // divisor becomes zero
};

/// Elements that share a range in 8 bits.
inline constexpr std::int64_t state_block = 256;

/// f32 to bf16, rounded up if a draw in units of 2^-16 says so. NaN and infinities stay.
LACUNA_HOST_DEVICE inline std::uint16_t rounded_to_bf16(float value, std::uint32_t draw) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const bool finite = (u & 0x7f800000U) != 0x7f800000U;
  return static_cast<std::uint16_t>((u + (finite ? draw : 0U)) >> 16);
}

/// A value in bf16 and what rounding to nearest lost (Kahan 1965).
struct Compensated {
  bf16 rounded, lost;
  LACUNA_HOST_DEVICE explicit Compensated(float value) : rounded(value) {
    const float difference = value - static_cast<float>(rounded);
    lost = bf16(difference == difference ? difference : 0.0F);  // nothing of infinities
  }
};

/// Signed square root, whose inverse is x · |x|.
struct SignedRoot {
  LACUNA_HOST_DEVICE static float compress(float value) { return std::copysign(std::sqrt(std::abs(value)), value); }
  LACUNA_HOST_DEVICE static float expand(float root) { return root * std::abs(root); }
  LACUNA_HOST_DEVICE static float lowest(float min, float) { return min; }
};

/// Logarithm to base 2, linear between powers of two: the bit pattern of a
/// positive float, read as an integer.
struct Logarithm {
  static constexpr float octave = 0x1p23F;
  LACUNA_HOST_DEVICE static float compress(float value) {
    const auto pattern = std::bit_cast<std::int32_t>(value);
    const bool finite = (pattern & 0x7f800000) != 0x7f800000;
    return finite ? static_cast<float>(pattern) / octave : std::numeric_limits<float>::quiet_NaN();
  }
  LACUNA_HOST_DEVICE static float expand(float logarithm) {
    constexpr float most = 254.99F;  // below infinity
    const float above = logarithm < 0.0F ? 0.0F : logarithm, held = most < above ? most : above;
    return std::bit_cast<float>(static_cast<std::int32_t>(held * octave));
  }
  /// Values more than 32 octaves below a block's largest are clamped, so that a
  /// step is at most an eighth of an octave.
  LACUNA_HOST_DEVICE static float lowest(float min, float max) { return min < max - 32 ? max - 32 : min; }
};

/// The range that codes of a block span, whose compressed values lie in [min, max].
struct StateRange {
  float min, max;
};
template <class Curve>
LACUNA_HOST_DEVICE StateRange state_range(Curve curve, float min, float max) {
  min = curve.lowest(min, max);
  // A constant has to lie between two codes, or it could never decrease.
  const float margin = min == max ? std::abs(min) * 0x1p-10F : 0.0F;
  return {min - margin, max + margin};
}

/// The line code · step + origin from codes to compressed values.
struct StateLine {
  float step, origin;
};
/// The 8-bit code of a value, rounded by a draw in units of 2^-16. The probability of rounding up is the remainder in
/// values, not on the curve, so that the mean is the value itself. `per`: 1 / step.
template <class Curve>
LACUNA_HOST_DEVICE std::uint8_t state_code(Curve curve, StateLine line, float per, float value, float compressed,
                                           std::uint32_t draw) {
  const float steps = (compressed - line.origin) * per, above = steps < 0.0F ? 0.0F : steps;
  const float code = std::floor(254.0F < above ? 254.0F : above);
  const float low = curve.expand(code * line.step + line.origin),
              high = curve.expand((code + 1) * line.step + line.origin);
  const float share = (value - low) * 65536.0F, drawn = static_cast<float>(draw) + 0.5F;
  return static_cast<std::uint8_t>(static_cast<std::int32_t>(code) + (share > drawn * (high - low) ? 1 : 0));
}

}  // namespace lacuna
