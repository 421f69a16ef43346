// Places at which RoIAlign samples a map along one axis, for the CPU and for .cu files.
#pragma once

#include "core/math.h"

#include <cstdint>
#include <type_traits>

namespace lacuna {

/// One side of a box on a map of `extent` places, cut into `bins` of `grid` samples each, as torchvision does it.
template <class Real>
struct RoiAxis {
  Real start, bin;
  std::int32_t grid, extent;

  LACUNA_HOST_DEVICE static Real product(Real a, Real b) {
    if constexpr (std::is_same_v<Real, float>) return math::rounded_product(a, b);
    return a * b;
  }

  /// `low` and `high`: the box's side in pixels; `samples` 0: one for each place of the map.
  LACUNA_HOST_DEVICE static RoiAxis of(Real low, Real high, Real scale, std::int32_t bins, std::int32_t samples,
                                       bool aligned, std::int32_t extent) {
    const Real offset = aligned ? Real(0.5) : Real(0);
    RoiAxis axis{product(low, scale) - offset, 0, samples, extent};
    Real length = product(high, scale) - offset - axis.start;
    if (!aligned && length < 1) length = 1;
    axis.bin = length / static_cast<Real>(bins);
    using std::ceil;
    if (samples == 0) axis.grid = static_cast<std::int32_t>(ceil(axis.bin));
    return axis;
  }

  /// A sample is (1 - high_weight) · low + high_weight · high; outside of the map it is 0.
  struct Taps {
    std::int32_t low, high;
    Real high_weight;
    bool inside;
  };
  LACUNA_HOST_DEVICE Taps taps(std::int32_t of_bin, std::int32_t sample) const {
    Real place = start + product(static_cast<Real>(of_bin), bin) +
                 (static_cast<Real>(sample) + Real(0.5)) * bin / static_cast<Real>(grid);
    if (!(place >= -1 && place <= static_cast<Real>(extent))) return {0, 0, 0, false};
    if (place < 0) place = 0;
    const auto low = static_cast<std::int32_t>(place);
    if (low >= extent - 1) return {extent - 1, extent - 1, 0, true};
    return {low, low + 1, place - static_cast<Real>(low), true};
  }
  /// The sum of a place's weights in a bin's samples.
  LACUNA_HOST_DEVICE Real weight_of(std::int32_t of_bin, std::int32_t place) const {
    Real sum = 0;
    for (std::int32_t k = 0; k < grid; ++k) {
      const Taps t = taps(of_bin, k);
      if (t.inside && t.low == place) sum += 1 - t.high_weight;
      if (t.inside && t.high == place) sum += t.high_weight;
    }
    return sum;
  }
  /// Whether a bin's samples may read the place.
  LACUNA_HOST_DEVICE bool reaches(std::int32_t of_bin, std::int32_t place) const {
    const Real from = start + static_cast<Real>(of_bin) * bin, at = static_cast<Real>(place);
    return (place == 0 || from + bin > at - 2) && (place == extent - 1 || from < at + 2);
  }
};

}  // namespace lacuna
