// How many bits each tensor gets: the allocation behind the policies that adapt.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// A tensor whose bits are to be chosen.
struct BitChoice {
  std::int64_t elements = 0;
  std::int64_t range_bytes = 0;    // steps and origins
  std::int64_t rotated_bytes = 0;  // in their place, of codes of few bits (codec::rotates): steps and means
  double sensitivity = 0;          // variance of the whole gradient that an error as large as the tensor would cause
  std::int64_t exact_bytes = 0;    // what the tensor itself takes, if that is a choice; 0: codes only
};

/// In place of a number of bits: the tensor itself is kept.
inline constexpr int exact_bits = 32;

struct BitPlan {
  std::vector<int> bits;      // as the choices
  std::int64_t bytes = 0;     // codes and ranges
  double variance = 0;        // predicted, of the whole gradient
  double least_variance = 0;  // no allocation within the bytes can be better (Lagrangian bound)
};

/// The least that a sensitivity counts for, of what the tensor's size alone would give it: a branch whose last norm
/// begins at zero has none yet, and will have.
inline constexpr double least_share_of_usual = 0.01;

/// The least predicted variance within `bytes`; with one bit for each tensor where not even that fits. The variance of
/// a code is convex in the bits, so that taking the best bit for its bytes one after the other is optimal but for the
/// last (Everett 1963); `least_variance` says how far from it at most.
BitPlan allocate_bits(std::span<const BitChoice> choices, std::int64_t bytes);

/// Variance of the codes that err least with so many bits (codec::least_error), relative to that of what they stand
/// for, which is taken to be normally distributed; 0 for `exact_bits`.
double code_variance(int bits);

}  // namespace lacuna
