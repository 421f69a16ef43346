// The parameters of one group of affine codes: how they are chosen, and the lines from values to codes and back.
#pragma once

#include "core/dtype.h"
#include "ops/quantize/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lacuna::quant {

/// The four stored bytes of a group: value = step · (code + origin · 2^(bits - 8)). A negative step marks a constant
/// group: every value is |step| · origin · 2^(bits - 8).
struct GroupParams {
  bf16 step;
  std::int16_t origin = 0;
};
inline constexpr std::int64_t group_params_bytes = 4;
static_assert(sizeof(GroupParams) == group_params_bytes);

/// The same as numbers: value = step · code + origin. The origin is exact: a product of 8 and 16 significant bits.
struct Scale {
  double step = 0, origin = 0;
};

/// The unit of a stored origin, in steps: 2^(bits - 8).
inline double origin_unit(int bits) { return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + bits - 8) << 52); }

inline Scale scale_of(GroupParams params, int bits) {
  const double step = static_cast<double>(static_cast<float>(params.step));
  const double origin = std::abs(step) * (params.origin * origin_unit(bits));
  return {step < 0 ? 0 : step, origin};
}

/// Parameters of a group that holds a NaN or an infinity: all of it decodes to NaN.
inline GroupParams not_finite() { return {bf16(std::numeric_limits<float>::quiet_NaN()), 0}; }

/// A line from codes to values, code · factor + origin, or from values to codes, (value - origin) · factor.
template <class C>
struct Line {
  C origin, factor;
};

/// The line from a group's values to its codes in units of 2^-16: factor = 2^16 / step. Constant and nonfinite groups
/// have factor 0, and so all codes 0.
struct EncodingLine {
  Line<double> exact{};
  Line<float> floats{};
  /// The differences or the factor exceed the range of f32: encode with `exact`.
  bool wide = false;
};

/// Parameters of several groups, computed together. One array per number, so that the loop over groups vectorizes.
struct GroupBatch {
  static constexpr std::size_t max_groups = 16;

  void set(std::size_t group, Range range) {
    mins[group] = range.min;
    maxs[group] = range.max;
  }
  GroupParams params(std::size_t group) const {
    GroupParams own;
    own.step.bits = steps[group];
    own.origin = origins[group];
    return own;
  }
  EncodingLine encoding_line(std::size_t group) const {
    return {{line_origins[group], line_factors[group]},
            {static_cast<float>(line_origins[group]), static_cast<float>(line_factors[group])},
            wide[group]};
  }

  // All: [max_groups].
  std::array<float, max_groups> mins{}, maxs{};   // finite
  std::array<std::uint16_t, max_groups> steps{};  // bits of a bf16
  std::array<std::int16_t, max_groups> origins{};
  std::array<double, max_groups> line_origins{}, line_factors{};
  std::array<bool, max_groups> wide{};
};

/// Chooses steps and origins for codes of one width: the smallest bf16 step such that the codes span [min, max] and the
/// origin fits 16 bits.
class ParamFitter {
 public:
  explicit ParamFitter(int bits)
      : bits_(bits),
        unit_(origin_unit(bits)),
        steps_per_range_(1 / ((1 << bits) - 1 - unit_)),  // the origin may lie one unit below the minimum
        steps_per_offset_(1 / (max_origin * unit_)) {}

  /// Fits every group of `batch`, also those that were not set: a constant trip count lets the loop vectorize.
  void fit(GroupBatch& batch) const {
    for (std::size_t i = 0; i < GroupBatch::max_groups; ++i) fit_one(batch, i);
    for (std::size_t i = 0; i < GroupBatch::max_groups; ++i) fit_if_constant(batch, i);
  }

  /// Fits one finite range.
  GroupParams fit(Range range) const {
    GroupBatch batch;
    batch.set(0, range);
    fit_one(batch, 0);
    fit_if_constant(batch, 0);
    return batch.params(0);
  }

 private:
  static constexpr int max_origin = 32767;
  static constexpr int min_exponent = -133;  // of a bf16

  [[gnu::always_inline]] inline void fit_one(GroupBatch& batch, std::size_t i) const {
    const double min = static_cast<double>(batch.mins[i]), max = static_cast<double>(batch.maxs[i]);
    const std::uint32_t bits = rounded_up(std::max((max - min) * steps_per_range_, std::abs(min) * steps_per_offset_));
    const auto step = static_cast<double>(std::bit_cast<float>(bits << 16));
    const double origin = std::floor(min / (step > 0 ? step * unit_ : 1.0));
    const bool varies = min < max;
    batch.steps[i] = static_cast<std::uint16_t>(bits);
    batch.origins[i] = static_cast<std::int16_t>(origin);
    batch.line_origins[i] = varies ? step * (origin * unit_) : 0.0;
    batch.line_factors[i] = varies ? 65536 / step : 0.0;
    batch.wide[i] = varies && (std::max(std::abs(min), std::abs(max)) > 0x1p125 || step < 0x1p-110);
  }
  void fit_if_constant(GroupBatch& batch, std::size_t i) const {
    if (batch.mins[i] != batch.maxs[i]) return;
    const GroupParams constant = fit_constant(static_cast<double>(batch.mins[i]));
    batch.steps[i] = constant.step.bits;
    batch.origins[i] = constant.origin;
  }

  /// Bits of the smallest bf16 that is not below a positive value; of the largest finite bf16 for values beyond it.
  static std::uint32_t rounded_up(double value) {
    const auto nearest = static_cast<float>(std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest) + (static_cast<double>(nearest) < value ? 1 : 0);
    return std::min((bits + 0xffffU) >> 16, 0x7f7fU);
  }

  /// All codes will be 0: the origin holds the leading 15 bits of the value, the step is a power of two.
  GroupParams fit_constant(double value) const {
    if (value == 0) return {};
    int exponent = 0;
    std::frexp(value, &exponent);  // |value| < 2^exponent
    exponent = std::max(exponent - 15 + 8 - bits_, min_exponent);
    double units = std::nearbyint(std::ldexp(value, 8 - bits_ - exponent));
    if (units > max_origin) {
      ++exponent;
      units /= 2;
    }
    return {bf16(-std::ldexp(1.0F, exponent)), static_cast<std::int16_t>(units)};
  }

  int bits_;
  double unit_;  // of the origin, in steps
  double steps_per_range_, steps_per_offset_;
};

}  // namespace lacuna::quant
