// Bit allocation: how many bits each saved tensor gets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// One way to hold a tensor.
struct HoldCost {
  std::int64_t bytes = 0;
  double cost = 0;  // to be minimized, summed over tensors
};

struct HoldPlan {
  std::vector<std::size_t> ways;  // [tensors]
  std::int64_t bytes = 0;
  double cost = 0;
  double least_cost = 0;  // lower bound over all choices within the bytes (Lagrange)
};

/// Chooses one way per tensor with the least total cost within `bytes`; the first way of each if not even those fit.
/// The ways of a tensor are ordered by bytes. Takes the step that saves most cost per byte first (Everett 1963), so the
/// result is optimal up to the last step; `least_cost` bounds the distance from the optimum.
HoldPlan choose_ways(std::span<const std::vector<HoldCost>> tensors, std::int64_t bytes);

/// A tensor whose bits are to be chosen.
struct BitChoice {
  std::int64_t elements = 0;
  std::int64_t range_bytes = 0;     // steps and origins
  std::int64_t hadamard_bytes = 0;  // the same with few bits (quant::uses_hadamard): steps and means
  double sensitivity = 0;           // variance of the gradient per relative squared error of the tensor
  std::int64_t exact_bytes = 0;     // of the tensor itself, if it may be kept; otherwise 0
};

/// Stands for a tensor that is kept unquantized.
inline constexpr int exact_bits = 32;

/// The widths to choose from, ascending. 7 bits need more planes than 8 and gain nothing.
inline constexpr std::array bit_widths{1, 2, 3, 4, 5, 6, 8, exact_bits};
/// Bytes of the quantized tensor with its ranges; of the tensor itself at `exact_bits`.
std::int64_t held_bytes(const BitChoice& choice, int bits);

struct BitPlan {
  std::vector<int> bits;      // [choices]
  std::int64_t bytes = 0;     // with ranges
  double variance = 0;        // of the gradient, predicted
  double least_variance = 0;  // lower bound over all allocations within the bytes
};

/// A sensitivity counts as at least this part of what the tensor's size alone suggests: a branch whose last norm starts
/// at zero has no sensitivity yet, and will have one.
inline constexpr double least_share_of_usual = 0.01;

/// Minimizes the predicted variance within `bytes` by `choose_ways`. One bit per tensor if not even that fits.
BitPlan allocate_bits(std::span<const BitChoice> choices, std::int64_t bytes);

/// Squared error of quantizing normally distributed values with quant::min_error_config(bits), relative to their
/// variance; 0 for `exact_bits`.
double code_variance(int bits);

}  // namespace lacuna
