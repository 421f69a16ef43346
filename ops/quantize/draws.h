// The random numbers of quantization, the same on every device: draws for rounding, and words of random signs.
#pragma once

#include "core/host_device.h"

#include <array>
#include <cstdint>

namespace lacuna::quant {

/// The finalizer of SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014): makes
/// neighbouring keys independent.
LACUNA_HOST_DEVICE inline std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}
/// The key of a tensor as lowbias32 takes it.
LACUNA_HOST_DEVICE inline std::uint64_t mixed_key(std::uint64_t key) { return splitmix64(splitmix64(key)); }
/// The key of a tensor that four draws give.
LACUNA_HOST_DEVICE inline std::uint64_t key_of(const std::array<std::uint32_t, 4>& draw) {
  return std::uint64_t{draw[0]} << 32 | draw[1];
}
/// Hashes 32-bit counters, one or a vector of them, with a key: Wellons' lowbias32 with one half of the key mixed in
/// first, the other half in the middle.
template <class Words>
LACUNA_HOST_DEVICE inline Words lowbias32(Words x, std::uint64_t key) {
  x ^= static_cast<std::uint32_t>(key);
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15) ^ static_cast<std::uint32_t>(key >> 32)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Draws of eight consecutive elements, in units of 2^-16 steps: those that Draws (affine_kernels.h) makes block by
/// block.
class EightDraws {
 public:
  /// `mixed`: mixed_key(key). `first`: a multiple of 8.
  LACUNA_HOST_DEVICE EightDraws(std::uint64_t mixed, std::int64_t first) {
    constexpr std::int64_t block_elements = 128;
    constexpr std::uint32_t hashed = 16;  // words of a block; each set of 32 elements shifts them further
    const auto counter = static_cast<std::uint32_t>(first / block_elements) * hashed;
    const auto place = static_cast<std::uint32_t>(first % block_elements), set = place / 32, word = place % 32 / 2;
    for (std::uint32_t i = 0; i < 4; ++i) {
      words_[i] = lowbias32(counter + word + i, mixed);
      if (set > 0) words_[i] ^= lowbias32(counter + (word + i + set) % hashed, mixed);
    }
  }
  LACUNA_HOST_DEVICE std::int32_t operator[](int i) const {
    return static_cast<std::int32_t>(words_[i / 2] >> (i % 2 * 16) & 0xffffU);
  }

 private:
  std::uint32_t words_[4];
};

}  // namespace lacuna::quant
