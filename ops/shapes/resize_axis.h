// Which places of an image a resized one reads, along one axis.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace lacuna {

enum class Resampling : std::uint8_t {
  nearest,          // place ⌊i · extent / out⌋ (PyTorch's nearest, not nearest-exact)
  bilinear,         // the corners of the outer pixels meet (PyTorch's align_corners=False); never antialiased
  bilinear_corners  // the centres of the outer pixels meet (align_corners=True)
};

/// `extent` places resized to `out`, both below 2^15. Places are exact: fractions of integers.
struct ResampledAxis {
  std::int32_t extent, out;
  Resampling resampling;

  /// Value i is (1 - share) · low + share · high, where share = part / whole.
  struct Taps {
    std::int32_t low, high, part, whole;
    template <class C>
    LACUNA_HOST_DEVICE constexpr C share() const {
      return static_cast<C>(part) / static_cast<C>(whole);
    }
  };
  LACUNA_HOST_DEVICE constexpr Taps taps(std::int32_t i) const {
    if (resampling == Resampling::nearest) {
      const auto place = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * extent / out);
      return {place, place, 0, 1};
    }
    // The place as a fraction: numerator / denominator.
    std::int64_t numerator = 0, denominator = 1;
    if (resampling == Resampling::bilinear) {
      numerator = (2 * static_cast<std::int64_t>(i) + 1) * extent - out;
      denominator = 2 * static_cast<std::int64_t>(out);
    } else if (out > 1) {
      numerator = static_cast<std::int64_t>(i) * (extent - 1);
      denominator = out - 1;
    }
    if (numerator < 0) numerator = 0;
    const auto low = static_cast<std::int32_t>(numerator / denominator);
    return {low, low + 1 < extent ? low + 1 : low, static_cast<std::int32_t>(numerator % denominator),
            static_cast<std::int32_t>(denominator)};
  }

  struct Range {
    std::int32_t begin, end;
  };
  /// The values that read a place: those of [begin, end).
  LACUNA_HOST_DEVICE constexpr Range readers(std::int32_t place) const {
    return {first_with([&](const Taps& t) { return t.high >= place; }),
            first_with([&](const Taps& t) { return t.low > place; })};
  }
  /// The weight of a place in value i, which may read it twice.
  template <class C>
  LACUNA_HOST_DEVICE static constexpr C weight_of(const Taps& t, std::int32_t place) {
    return (t.low == place ? 1 - t.share<C>() : C(0)) + (t.high == place ? t.share<C>() : C(0));
  }

 private:
  /// The first value whose taps hold, which those of all later ones do; `out`: none.
  template <class Holds>
  LACUNA_HOST_DEVICE constexpr std::int32_t first_with(const Holds& holds) const {
    std::int32_t low = 0, high = out;
    while (low < high) {
      const std::int32_t middle = (low + high) / 2;
      if (holds(taps(middle)))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
};

}  // namespace lacuna
