// Per-sample random draws.
#pragma once

#include "core/random.h"

#include <array>
#include <cstdint>

namespace lacuna {

/// The draws of one sample in one epoch: a function of (seed, epoch, index, copy), independent of the reading order.
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index, std::int64_t copy = 0)
      : stream_{seed, static_cast<std::uint32_t>(epoch),
                random_site("data/augment") + 0x9E3779B9U * static_cast<std::uint32_t>(copy)},
        next_(static_cast<std::uint64_t>(index) * draws_per_sample) {}

  /// Takes one draw: an integer in [0, bound).
  std::int64_t below(std::int64_t bound) { return stream_.below(next_++, static_cast<std::uint32_t>(bound)); }
  /// Takes one draw: a number in [low, high).
  double uniform(double low = 0, double high = 1) {
    return low + (high - low) * (static_cast<double>(stream_.bits(next_++)) * 0x1p-32);
  }
  /// Standard normal, from two draws.
  double normal();
  /// Gamma with `shape` > 0 and scale 1, from a few draws.
  double gamma(double shape);
  /// Beta with a, b > 0, from a few draws.
  double beta(double a, double b);
  /// The sample's third stream, for a permutation.
  RandomStream order() const;
  /// Four standard normal numbers of the sample's second stream, which is for bulk noise. `block` is below 2^28.
  std::array<float, 4> noise(std::uint32_t block) const;

 private:
  static constexpr std::uint64_t draws_per_sample = 1024;
  RandomStream stream_;
  std::uint64_t next_;
};

}  // namespace lacuna
