// The parameters of one group of affine codes: how they are chosen, and the lines from values to codes and back.
#pragma once

#include "core/dtype.h"
#include "ops/quantize/group_fit.h"
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

inline Scale scale_of(GroupParams params, int bits) {
  const auto step = static_cast<double>(static_cast<float>(params.step));
  const double origin = std::abs(step) * (params.origin * static_cast<double>(origin_unit(bits)));
  return {step < 0 ? 0 : step, origin};
}

/// Parameters of a group that holds a NaN or an infinity: all of it decodes to NaN.
inline GroupParams not_finite() { return {bf16(std::numeric_limits<float>::quiet_NaN()), 0}; }

/// A line from codes to values, code · factor + origin, or from values to codes, (value - origin) · factor.
template <class C>
struct Line {
  C origin, factor;
};

/// The line from a group's values, times `scale`, to its codes in units of 2^-16: factor = 2^16 / (step · scale).
/// Constant and nonfinite groups have factor 0, and so all codes 0.
struct EncodingLine {
  float origin = 0, factor = 0;
  float scale = 1;  // another power of two where differences or the factor would exceed the range of f32
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
    return {line_origins[group], line_factors[group], line_scales[group]};
  }

  // All: [max_groups].
  std::array<float, max_groups> mins{}, maxs{};   // finite
  std::array<std::uint16_t, max_groups> steps{};  // bits of a bf16
  std::array<std::int16_t, max_groups> origins{};
  std::array<float, max_groups> line_origins{}, line_factors{}, line_scales{};
};

/// Fits groups one by one, or a batch of them at once.
class ParamFitter {
 public:
  explicit ParamFitter(int bits) : fitter_(bits) {}

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
  [[gnu::always_inline]] inline void fit_one(GroupBatch& batch, std::size_t i) const {
    const FittedGroup group = fitter_.varying(batch.mins[i], batch.maxs[i]);
    batch.steps[i] = group.params.step;
    batch.origins[i] = group.params.origin;
    batch.line_origins[i] = group.line_origin;
    batch.line_factors[i] = group.line_factor;
    batch.line_scales[i] = group.line_scale;
  }
  void fit_if_constant(GroupBatch& batch, std::size_t i) const {
    if (batch.mins[i] != batch.maxs[i]) return;
    const FittedParams constant = fitter_.constant(batch.mins[i]);
    batch.steps[i] = constant.step;
    batch.origins[i] = constant.origin;
  }

  GroupFitter fitter_;
};

}  // namespace lacuna::quant
