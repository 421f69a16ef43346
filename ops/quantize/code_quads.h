// Whole blocks of 128 affine codes in the registers of four neighbouring lanes, a quad, for .cu files. Lane l has the
// elements 8 l + 32 k + i of the block, k < 4, i < 8: their codes share bytes of the planes, so that packing takes next
// to no exchange, and their draws share hashed words.
#pragma once

#include "ops/cuda/codes.h"

namespace lacuna::cuda {

inline constexpr int quad_lanes = 4, quad_eights = 4;

/// Draws of the elements of a lane: those of quant::EightDraws.
class QuadDraws {
 public:
  LACUNA_DEVICE QuadDraws() : words_{} {}
  LACUNA_DEVICE QuadDraws(std::uint64_t mixed, std::int64_t block, int lane) {
    constexpr std::uint32_t hashed = 16;  // words of a block
#pragma unroll
    for (std::uint32_t i = 0; i < 7; ++i)
      words_[i] = quant::lowbias32(
          static_cast<std::uint32_t>(block) * hashed + (static_cast<std::uint32_t>(4 * lane) + i) % hashed, mixed);
  }
  LACUNA_DEVICE std::int32_t operator()(int k, int i) const {
    const std::uint32_t word = k == 0 ? words_[i / 2] : words_[i / 2] ^ words_[i / 2 + k];
    return static_cast<std::int32_t>(word >> (i % 2 * 16) & 0xffffU);
  }

 private:
  std::uint32_t words_[7];  // hashed
};

namespace detail {

/// Calls `f(plane, width, shift)` for each plane of a whole block.
template <class Byte, class F>
LACUNA_DEVICE inline void for_planes(Byte* plane, int bits, const F& f) {
  int shift = 0;
#pragma unroll
  for (int width = 8; width > 0; width /= 2) {
    if ((bits & width) == 0) continue;
    f(plane, width, shift);
    plane += code_block / 8 * width;
    shift += width;
  }
}
/// Eights of a lane that share bytes of a plane: k, k + quad_bytes, ... for k below it.
LACUNA_DEVICE constexpr int quad_bytes(int width) { return width < 2 ? 1 : width / 2; }

}  // namespace detail

/// The codes of a lane from the planes of a block, aligned to 8.
LACUNA_DEVICE inline void load_quad(const std::uint8_t* planes, int bits, int lane, EightCodes (&codes)[quad_eights]) {
#pragma unroll
  for (int k = 0; k < quad_eights; ++k) codes[k] = {{0, 0}};
  detail::for_planes(planes, bits, [&](const std::uint8_t* plane, int width, int shift) {
    const std::uint32_t mask = ((1U << width) - 1) * 0x01010101U;
    const int apart = detail::quad_bytes(width), place = width == 1 ? lane % 2 * 8 : lane * 8;
    const int part = width == 1 ? lane / 2 : 0, step = width == 1 ? 2 : width;
#pragma unroll
    for (int k = 0; k < quad_eights; ++k) {
      if (k >= apart) break;
      const auto words = load_pack<2>(reinterpret_cast<const std::uint32_t*>(plane + place + 32 * k));
#pragma unroll
      for (int j = k; j < quad_eights; j += apart)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          codes[j][half] |= (words[half] >> (part + j / apart * step) & mask) << shift;
    }
  });
}

/// Writes the codes of a lane. All lanes of the warp call it; those of blocks that are not `here` write nothing.
LACUNA_DEVICE inline void store_quad(std::uint8_t* planes, int bits, int lane, const EightCodes (&codes)[quad_eights],
                                     bool here) {
  detail::for_planes(planes, bits, [&](std::uint8_t* plane, int width, int shift) {
    const std::uint32_t mask = ((1U << width) - 1) * 0x01010101U;
    const int apart = detail::quad_bytes(width), step = width == 1 ? 2 : width;
#pragma unroll
    for (int k = 0; k < quad_eights; ++k) {
      if (k >= apart) break;
      EightCodes own{{0, 0}};
#pragma unroll
      for (int j = k; j < quad_eights; j += apart)
#pragma unroll
        for (int half = 0; half < 2; ++half) own[half] |= (codes[j][half] >> shift & mask) << (j / apart * step);
      if (width == 1) {  // lanes 2 and 3 have the odd bits of the bytes of lanes 0 and 1
        own[0] |= exchange(own[0], 2) << 1;
        own[1] |= exchange(own[1], 2) << 1;
      }
      if (here && (width > 1 || lane < 2)) store_pack(reinterpret_cast<std::uint32_t*>(plane + lane * 8 + 32 * k), own);
    }
  });
}

}  // namespace lacuna::cuda
