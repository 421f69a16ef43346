// The meaning of codes after a Hadamard transform, the same on every device: matrices, levels and random signs.
#pragma once

#include "core/host_device.h"
#include "ops/quantize/draws.h"

#include <cstdint>

namespace lacuna::quant {

/// The shape of an orthonormal matrix: `parts` of 2^k values each, with H(2^k) on the diagonal. Two or four parts are
/// then mixed by H(2) or H(4); three by the reflection 2/3 · ones - identity.
struct HadamardSize {
  std::int64_t part;
  int parts;
};
/// Determines the matrix, and so what codes mean: the same for every instruction set.
inline constexpr std::int64_t max_part = 256;

/// The largest matrix for at most `count` values.
LACUNA_HOST_DEVICE inline HadamardSize hadamard_size(std::int64_t count) {
  std::int64_t power = 1;
  while (2 * power <= count) power *= 2;
  if (power / 2 * 3 <= count && 1 < power && power / 2 <= max_part) return {power / 2, 3};
  if (power <= max_part) return {power, 1};
  return {max_part, power > 2 * max_part ? 4 : 2};
}

/// Positions per sample from which channel means are worth their bits: a mean then costs at most a quarter of a bit per
/// element. As many are sampled to estimate a mean: the residual varies by 1/32 more than about the mean of all.
inline constexpr std::int64_t min_positions = 32;

/// The position of stretch `index`, of `stretch` positions, that a mean is estimated from: one at random, since a fixed
/// distance would be some image's width.
LACUNA_HOST_DEVICE inline std::int64_t sampled_position(std::int64_t index, std::int64_t stretch) {
  const std::uint64_t drawn = splitmix64(static_cast<std::uint64_t>(index)) % static_cast<std::uint64_t>(stretch);
  return index * stretch + static_cast<std::int64_t>(drawn);
}

/// Words of 32 random signs of a group, of which it may use fewer: word i of a group is lowbias32(first + i, mixed).
struct SignWords {
  std::uint32_t first;
  std::uint64_t mixed;
  LACUNA_HOST_DEVICE SignWords(std::uint64_t key, std::int64_t group) {
    constexpr std::uint64_t words = 32;  // of the longest group
    const std::uint64_t counter = static_cast<std::uint64_t>(group) * words;
    first = static_cast<std::uint32_t>(counter);
    mixed = splitmix64(splitmix64(key) + (counter >> 32));
  }
};

}  // namespace lacuna::quant
