// How many bits each tensor gets: the allocation behind the policies that adapt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// One of the ways to hold a tensor.
struct HoldCost {
  std::int64_t bytes = 0;
  double cost = 0;  // what is to be least in all
};

struct HoldPlan {
  std::vector<std::size_t> ways;  // of each tensor, which
  std::int64_t bytes = 0;
  double cost = 0;
  double least_cost = 0;  // no choice within the bytes can cost less (Lagrangian bound)
};

/// One way for each tensor, of its own, which are in the order of their bytes: the least cost within `bytes`; the first
/// way of each where not even those fit. Steps that save most for a byte are taken one after the other (Everett 1963),
/// over ways whose own step is not worth it: the best but for the last steps, and `least_cost` says how far from it at
/// most. A way that costs more than one of fewer bytes is never taken.
HoldPlan choose_ways(std::span<const std::vector<HoldCost>> tensors, std::int64_t bytes);

/// A tensor whose bits are to be chosen.
struct BitChoice {
  std::int64_t elements = 0;
  std::int64_t range_bytes = 0;     // steps and origins
  std::int64_t hadamard_bytes = 0;  // in their place, of codes of few bits (quant::uses_hadamard): steps and means
  double sensitivity = 0;           // variance of the whole gradient that an error as large as the tensor would cause
  std::int64_t exact_bytes = 0;     // what the tensor itself takes, if that is a choice; 0: codes only
};

/// In place of a number of bits: the tensor itself is kept.
inline constexpr int exact_bits = 32;

/// What a tensor can have, the fewest first; seven bits cost a plane more than eight and gain nothing.
inline constexpr std::array bit_widths{1, 2, 3, 4, 5, 6, 8, exact_bits};
/// Bytes of a tensor in so many bits, codes and ranges; of itself at `exact_bits`.
std::int64_t held_bytes(const BitChoice& choice, int bits);
/// As `bit_widths`, by the variance of the gradient that each causes; without `exact_bits` where that is no choice.
std::vector<HoldCost> ways_of(const BitChoice& choice);

struct BitPlan {
  std::vector<int> bits;      // as the choices
  std::int64_t bytes = 0;     // codes and ranges
  double variance = 0;        // predicted, of the whole gradient
  double least_variance = 0;  // no allocation within the bytes can be better (Lagrangian bound)
};

/// The least that a sensitivity counts for, of what the tensor's size alone would give it: a branch whose last norm
/// begins at zero has none yet, and will have.
inline constexpr double least_share_of_usual = 0.01;

/// The least predicted variance within `bytes`; with one bit for each tensor where not even that fits. By
/// `choose_ways`; `least_variance` says how far from the best it is at most.
BitPlan allocate_bits(std::span<const BitChoice> choices, std::int64_t bytes);

/// Variance of the codes that err least with so many bits (quant::min_error_config), relative to that of what they
/// stand for, which is taken to be normally distributed; 0 for `exact_bits`.
double code_variance(int bits);

}  // namespace lacuna
