// What is kept of a group of affine codes, how it is chosen, and the lines that lead from values to codes and back.
#pragma once

#include "core/dtype.h"
#include "ops/quantize/affine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lacuna::quant {

/// What is kept of a group: value = step · (code + origin · 2^(bits - 8)). Below zero the step is that of the origin
/// alone, which all values of the group are.
struct Stored {
  bf16 step;
  std::int16_t origin = 0;
};
inline constexpr std::int64_t stored_bytes = 4;
static_assert(sizeof(Stored) == stored_bytes);

/// What a group decodes with: value = step · code + origin. The origin is exact: 8 bits times 16.
struct Scale {
  double step = 0, origin = 0;
};

/// What an origin is counted in, of steps.
inline double unit_of(int bits) { return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + bits - 8) << 52); }

inline Scale scale_of(Stored stored, int bits) {
  const double step = static_cast<double>(static_cast<float>(stored.step));
  const double origin = std::abs(step) * (stored.origin * unit_of(bits));
  return {step < 0 ? 0 : step, origin};
}

/// The step of a group that holds a NaN or an infinity.
inline Stored not_finite() { return {bf16(std::numeric_limits<float>::quiet_NaN()), 0}; }

/// From codes to values: code · factor + origin. From values to codes: (value - origin) · factor.
template <class C>
struct Line {
  C origin, factor;
};

/// How a group's values become codes: ((value - origin) · factor) / 2^16, with factor = 2^16 / step. Groups that are
/// constant or not finite have a factor of 0, and so the codes 0.
struct EncodingLine {
  Line<double> exact{};
  Line<float> floats{};
  /// Differences or the factor do not fit floats.
  bool wide = false;
};

/// Groups that are fitted at once. Each number has an array of its own: the loop over them is one of vectors, and pairs
/// that are written apart and read together would be waited for.
struct GroupBatch {
  static constexpr std::size_t most = 16;

  void set(std::size_t group, Range range) {
    least[group] = range.min;
    greatest[group] = range.max;
  }
  Stored stored(std::size_t group) const {
    Stored own;
    own.step.bits = steps[group];
    own.origin = origins[group];
    return own;
  }
  EncodingLine encoding_line(std::size_t group) const {
    return {{line_origins[group], line_factors[group]},
            {static_cast<float>(line_origins[group]), static_cast<float>(line_factors[group])},
            wide[group]};
  }

  // All: [most].
  std::array<float, most> least{}, greatest{};  // finite
  std::array<std::uint16_t, most> steps{};      // bits of a bf16
  std::array<std::int16_t, most> origins{};     // in units, as Stored has them
  std::array<double, most> line_origins{}, line_factors{};
  std::array<bool, most> wide{};  // as EncodingLine has it
};

/// Chooses steps and origins for codes of one width.
class Fitting {
 public:
  explicit Fitting(int bits)
      : bits_(bits),
        unit_(unit_of(bits)),
        steps_a_range_(1 / ((1 << bits) - 1 - unit_)),  // the origin may lie a unit below the least value
        steps_an_offset_(1 / (greatest_origin * unit_)) {}

  /// For the ranges in `batch`: for all, since a number of rounds that the compiler knows makes the loop one of
  /// vectors. What nobody set is of groups before, or of zeros, and nobody asks for it.
  void fit(GroupBatch& batch) const {
    for (std::size_t i = 0; i < GroupBatch::most; ++i) fit_one(batch, i);
    for (std::size_t i = 0; i < GroupBatch::most; ++i) fit_if_constant(batch, i);
  }

  /// For one finite range.
  Stored fit(Range range) const {
    GroupBatch batch;
    batch.set(0, range);
    fit_one(batch, 0);
    fit_if_constant(batch, 0);
    return batch.stored(0);
  }

 private:
  static constexpr int greatest_origin = 32767;
  static constexpr int least_exponent = -133;  // of a bf16

  [[gnu::always_inline]] inline void fit_one(GroupBatch& batch, std::size_t i) const {
    const double least = static_cast<double>(batch.least[i]), most = static_cast<double>(batch.greatest[i]);
    const std::uint32_t bits =
        rounded_up(std::max((most - least) * steps_a_range_, std::abs(least) * steps_an_offset_));
    const auto step = static_cast<double>(std::bit_cast<float>(bits << 16));
    const double origin = std::floor(least / (step > 0 ? step * unit_ : 1.0));
    const bool varies = least < most;
    batch.steps[i] = static_cast<std::uint16_t>(bits);
    batch.origins[i] = static_cast<std::int16_t>(origin);
    batch.line_origins[i] = varies ? step * (origin * unit_) : 0.0;
    batch.line_factors[i] = varies ? 65536 / step : 0.0;
    batch.wide[i] = varies && (std::max(std::abs(least), std::abs(most)) > 0x1p125 || step < 0x1p-110);
  }
  void fit_if_constant(GroupBatch& batch, std::size_t i) const {
    if (batch.least[i] != batch.greatest[i]) return;
    const Stored constant = fit_constant(static_cast<double>(batch.least[i]));
    batch.steps[i] = constant.step.bits;
    batch.origins[i] = constant.origin;
  }

  /// The bits of the least bf16 not below a positive value; of the greatest finite one for what is beyond it.
  static std::uint32_t rounded_up(double value) {
    const auto nearest = static_cast<float>(std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest) + (static_cast<double>(nearest) < value ? 1 : 0);
    return std::min((bits + 0xffffU) >> 16, 0x7f7fU);
  }

  /// Every code will be 0: the origin holds the leading 15 bits of the value, the step a power of two.
  Stored fit_constant(double value) const {
    if (value == 0) return {};
    int exponent = 0;
    std::frexp(value, &exponent);  // |value| < 2^exponent
    exponent = std::max(exponent - 15 + 8 - bits_, least_exponent);
    double units = std::nearbyint(std::ldexp(value, 8 - bits_ - exponent));
    if (units > greatest_origin) {
      ++exponent;
      units /= 2;
    }
    return {bf16(-std::ldexp(1.0F, exponent)), static_cast<std::int16_t>(units)};
  }

  int bits_;
  double unit_;  // of the origin, in steps
  double steps_a_range_, steps_an_offset_;
};

}  // namespace lacuna::quant
