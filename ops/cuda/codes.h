// Affine codes as kernels on cuda read them, for .cu files: packed codes, draws and lines of groups, eight elements at
// a time. What decodes in registers and what dequantizes to memory share them, so that both give the same bits.
#pragma once

#include "core/block.h"
#include "core/math.h"
#include "ops/cuda/saved_values.h"
#include "ops/quantize/draws.h"

namespace lacuna::cuda {

inline constexpr int code_block = 128;  // elements whose codes are packed together (ops/quantize/layout.h)

/// Eight codes, a byte each.
using EightCodes = Pack<std::uint32_t, 2>;

LACUNA_HOST_DEVICE inline int plane_bytes(int elements, int width) { return (elements * width + 7) / 8; }

/// Packed codes of a tensor.
struct PackedCodes {
  const std::uint8_t* bytes;  // at any address
  std::int64_t count;         // elements
  int bits;
  bool in_packs;  // `bytes` is aligned to 8

  LACUNA_HOST_DEVICE PackedCodes(const std::uint8_t* packed, std::int64_t elements, int width)
      : bytes(packed), count(elements), bits(width), in_packs(reinterpret_cast<std::uintptr_t>(packed) % 8 == 0) {}

  LACUNA_DEVICE std::uint32_t one(std::int64_t element) const {
    const std::int64_t block = element / code_block, left = count - block * code_block;
    const int elements = left < code_block ? static_cast<int>(left) : code_block;
    const int place = static_cast<int>(element % code_block);
    const std::uint8_t* plane = bytes + block * (code_block / 8 * bits);
    std::uint32_t code = 0;
    int shift = 0;
    for (int width = 8; width > 0; width /= 2) {
      if ((bits & width) == 0) continue;
      const int length = plane_bytes(elements, width);
      code |= (static_cast<std::uint32_t>(plane[place % length]) >> (place / length * width) & ((1U << width) - 1))
              << shift;
      plane += length;
      shift += width;
    }
    return code;
  }
  /// Codes from `first`, a multiple of 8, on; 0 behind the last element.
  LACUNA_DEVICE void read(std::int64_t first, std::uint32_t (&code)[8]) const {
    const std::int64_t block = first / code_block, left = count - block * code_block;
    const int place = static_cast<int>(first % code_block);
    const std::uint8_t* const planes = bytes + block * (code_block / 8 * bits);
#pragma unroll
    for (int i = 0; i < 8; ++i) code[i] = 0;
    if (in_packs && left >= code_block)
      read_packs(planes, place, code);
    else
      read_bytes(planes, place, left < code_block ? static_cast<int>(left) : code_block, code);
  }

 private:
  /// Reads eight adjacent codes of a whole block, at a multiple of 8.
  LACUNA_DEVICE void read_packs(const std::uint8_t* plane, int place, std::uint32_t (&code)[8]) const {
    int shift = 0;
#pragma unroll
    for (int width = 8; width > 0; width /= 2) {
      if ((bits & width) == 0) continue;
      const int length = code_block / 8 * width, part = place / length * width;
      const std::uint32_t mask = ((1U << width) - 1) * 0x01010101U;
      const auto words = load_pack<2>(reinterpret_cast<const std::uint32_t*>(plane + place % length));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t four = words[half] >> part & mask;
#pragma unroll
        for (int i = 0; i < 4; ++i) code[4 * half + i] |= (four >> (8 * i) & 0xffU) << shift;
      }
      plane += length;
      shift += width;
    }
  }
  LACUNA_DEVICE void read_bytes(const std::uint8_t* plane, int place, int elements, std::uint32_t (&code)[8]) const {
    int shift = 0;
    for (int width = 8; width > 0; width /= 2) {
      if ((bits & width) == 0) continue;
      const int length = plane_bytes(elements, width);
      const std::uint32_t mask = (1U << width) - 1;
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (place + i < elements)
          code[i] |= (static_cast<std::uint32_t>(plane[(place + i) % length]) >> ((place + i) / length * width) & mask)
                     << shift;
      plane += length;
      shift += width;
    }
  }
};

/// The line from codes to values of one group; from codes in units of 2^-16, less their draws, if they are dithered.
struct DecodingLine {
  float step, origin;  // times `scale`
  float scale;         // below 1 where a value may lie beyond the range of f32: it is clamped to finite ones

  /// `params`: the four bytes of a group (GroupParams).
  LACUNA_DEVICE DecodingLine(const std::uint8_t* params, int bits, bool dithered) {
    std::uint32_t word;
    if (reinterpret_cast<std::uintptr_t>(params) % 4 == 0)
      word = *reinterpret_cast<const std::uint32_t*>(params);
    else
      word = params[0] | static_cast<std::uint32_t>(params[1]) << 8 | static_cast<std::uint32_t>(params[2]) << 16 |
             static_cast<std::uint32_t>(params[3]) << 24;
    const float stored = std::bit_cast<float>(word << 16);
    const auto units = static_cast<std::int16_t>(word >> 16);
    const float unit = 1.0F / static_cast<float>(1 << (8 - bits));
    const float magnitude = stored < 0 ? -stored : stored;
    scale = magnitude >= 0x1p100F ? 0.125F : 1.0F;
    step = stored < 0 ? 0.0F : stored * scale;  // negative: a constant group
    origin = magnitude * scale * (static_cast<float>(units) * unit);
    if (!dithered) return;
    step *= 0x1p-16F;
    origin = math::fused(32767.5F, step, origin);  // the mean draw
  }
};

template <class T>
inline constexpr float largest_finite = 0x1.fffffep127F;
template <>
inline constexpr float largest_finite<bf16> = 0x1.FEp127F;
template <>
inline constexpr float largest_finite<f16> = 65504.0F;

/// Codes to values within the range of T, NaN if the group is not finite; T may still round them.
template <class T>
LACUNA_DEVICE inline float decoded(float code, const DecodingLine& line) {
  const float top = largest_finite<T> * line.scale;
  float value = math::fused(code, line.step, line.origin);  // the origin is a product too
  value = value > top ? top : value;                        // NaN stays
  value = value < -top ? -top : value;
  return line.scale < 1 ? value * 8.0F : value;
}
template <class T>
LACUNA_DEVICE inline void decode(const DecodingLine& line, float (&values)[8]) {
  if (!std::is_same_v<T, f16> && line.scale == 1) {  // all codes lie within the range of T
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = math::fused(values[i], line.step, line.origin);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = decoded<T>(values[i], line);
  }
}

/// A code that was rounded with a draw, in units of 2^-16.
LACUNA_DEVICE inline float less_draw(std::uint32_t code, std::int32_t draw) {
  return static_cast<float>(static_cast<std::int32_t>(code << 16) - draw);
}
/// Codes of eight elements as a DecodingLine takes them.
LACUNA_DEVICE inline void read_codes(const PackedCodes& codes, std::int64_t first, const MixedKey& key, bool dithered,
                                     float (&numbers)[8]) {
  std::uint32_t code[8];
  codes.read(first, code);
  if (!dithered) {
#pragma unroll
    for (int i = 0; i < 8; ++i) numbers[i] = static_cast<float>(code[i]);
    return;
  }
  const quant::EightDraws draws(key(), first);
#pragma unroll
  for (int i = 0; i < 8; ++i) numbers[i] = less_draw(code[i], draws[i]);
}

}  // namespace lacuna::cuda
