// Bit allocation: chooses the number of bits for each saved tensor.
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
  double cost = 0;  // the sum over tensors is minimized
};

struct HoldPlan {
  std::vector<std::size_t> ways;  // [tensors]
  std::int64_t bytes = 0;
  double cost = 0;
  double least_cost = 0;  // lower bound over all choices within the bytes (Lagrange)
};

/// Chooses one way per tensor so that the total cost within `bytes` is minimal, or the first way of each if even those
/// do not fit. The ways of a tensor are ordered by bytes. A greedy method takes the step that saves the most cost per
/// byte first (Everett 1963), so the result is optimal up to the last step; `least_cost` bounds the gap to the optimum.
HoldPlan choose_ways(std::span<const std::vector<HoldCost>> tensors, std::int64_t bytes);

/// A tensor whose bits are to be chosen.
struct BitChoice {
  std::int64_t elements = 0;
  std::array<std::int64_t, 9> range_bytes{};  // bytes of group parameters, by bits
  double sensitivity = 0;                     // gradient variance per relative squared error of the tensor
  std::int64_t exact_bytes = 0;               // bytes of the unquantized tensor, if it may be kept; otherwise 0
};

/// The number of bits that denotes an unquantized tensor.
inline constexpr int exact_bits = 32;

/// The widths to choose from, ascending. 7 bits need more planes than 8 and gain nothing.
inline constexpr std::array bit_widths{1, 2, 3, 4, 5, 6, 8, exact_bits};
/// Bytes of the quantized tensor with its ranges, or of the unquantized tensor at `exact_bits`.
std::int64_t held_bytes(const BitChoice& choice, int bits);

struct BitPlan {
  std::vector<int> bits;      // [choices]
  std::int64_t bytes = 0;     // including ranges
  double variance = 0;        // predicted variance of the gradient
  double least_variance = 0;  // lower bound over all allocations within the bytes
};

/// The lower bound of a sensitivity, relative to the one expected from the tensor's size. It covers branches whose last
/// norm starts at zero: they have no sensitivity at first but will have one.
inline constexpr double least_share_of_usual = 0.01;

/// Minimizes the predicted variance within `bytes` by `choose_ways`. Chooses one bit per tensor if even that does not
/// fit.
BitPlan allocate_bits(std::span<const BitChoice> choices, std::int64_t bytes);

/// The squared error of quantizing normally distributed values with quant::min_error_config(bits), relative to their
/// variance; 0 for `exact_bits`.
double code_variance(int bits);

}  // namespace lacuna
