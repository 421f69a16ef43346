// Packing of small integers: the codes of a block as bit planes of 8, 4, 2 and 1 bit.
#pragma once

#include "core/vector.h"
#include "ops/quantize/layout.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lacuna::quant {

/// Mask of bits [shift, shift + width) of every byte.
constexpr std::uint64_t field(int width, int shift) {
  return (((std::uint64_t{1} << width) - 1) << shift) * 0x0101010101010101U;
}
/// Shifts all bytes left by `by`, right if negative; bits that cross into other bytes must be masked off.
template <class Vector>
inline void move_bits(Vector& bytes, int by) {
  bytes = by >= 0 ? bytes << by : bytes >> -by;
}

// A plane of a block, `bytes` long: byte j holds bits [shift, shift + width) of codes j, j + bytes, j + 2 · bytes, ...

/// A plane of a short block, the last of a tensor, byte by byte.
[[gnu::noinline]] inline void pack_short_plane(const std::uint8_t* codes, int width, int shift, std::int64_t bytes,
                                               std::uint8_t* out) {
  std::fill_n(out, bytes, std::uint8_t{0});
  for (std::int64_t i = 0; i < bytes * (8 / width); ++i) {
    const int bits = (codes[i] >> shift) & ((1 << width) - 1);
    out[i % bytes] = static_cast<std::uint8_t>(out[i % bytes] | bits << (i / bytes * width));
  }
}
[[gnu::noinline]] inline void unpack_short_plane(const std::uint8_t* in, int width, int shift, std::int64_t bytes,
                                                 std::uint8_t* codes) {
  for (std::int64_t i = 0; i < bytes * (8 / width); ++i) {
    const int bits = (in[i % bytes] >> (i / bytes * width)) & ((1 << width) - 1);
    codes[i] = static_cast<std::uint8_t>((shift > 0 ? codes[i] : 0) | bits << shift);
  }
}

/// A plane of a whole block: its bytes, and the vector type that goes through them.
template <int width>
struct PlaneOf {
  static constexpr std::int64_t bytes = block * width / 8;
  typedef std::uint64_t Vector __attribute__((vector_size(bytes < vector_bytes ? bytes : vector_bytes)));
};

template <int width, int shift>
inline void pack_plane(const std::uint8_t* codes, std::int64_t bytes, std::uint8_t* out) {
  if constexpr (width == 8) {
    std::memcpy(out, codes, static_cast<std::size_t>(bytes));
    return;
  }
  using Plane = PlaneOf<width>;
  using Vector = typename Plane::Vector;
  if (bytes != Plane::bytes) return pack_short_plane(codes, width, shift, bytes, out);
  for (std::int64_t i = 0; i < Plane::bytes; i += sizeof(Vector)) {
    Vector packed{};
    for (int part = 0; part < 8 / width; ++part) {
      Vector from;
      std::memcpy(&from, codes + part * Plane::bytes + i, sizeof from);
      move_bits(from, part * width - shift);
      packed |= from & field(width, part * width);
    }
    std::memcpy(out + i, &packed, sizeof packed);
  }
}
template <int width, int shift>
inline void unpack_plane(const std::uint8_t* in, std::int64_t bytes, std::uint8_t* codes) {
  if constexpr (width == 8) {
    std::memcpy(codes, in, static_cast<std::size_t>(bytes));
    return;
  }
  using Plane = PlaneOf<width>;
  using Vector = typename Plane::Vector;
  if (bytes != Plane::bytes) return unpack_short_plane(in, width, shift, bytes, codes);
  for (std::int64_t i = 0; i < Plane::bytes; i += sizeof(Vector)) {
    Vector packed;
    std::memcpy(&packed, in + i, sizeof packed);
    for (int part = 0; part < 8 / width; ++part) {
      std::uint8_t* const place = codes + part * Plane::bytes + i;
      Vector to{}, bits = packed;
      if (shift > 0) std::memcpy(&to, place, sizeof to);
      move_bits(bits, shift - part * width);
      to |= bits & field(width, shift);
      std::memcpy(place, &to, sizeof to);
    }
  }
}

/// Calls `f(width, shift, bytes, offset)` for each plane of a block of `count` codes. width and shift are integral
/// constants, offset counts bytes from the start of the block.
template <int bits, class F>
inline void for_planes(std::int64_t count, const F& f) {
  std::int64_t offset = 0;
  const auto plane = [&]<int width>(std::integral_constant<int, width> constant) {
    if constexpr ((bits & width) != 0) {
      const std::int64_t bytes = plane_bytes(count, width);
      f(constant, std::integral_constant<int, bits / (2 * width) * (2 * width)>{}, bytes, offset);
      offset += bytes;
    }
  };
  plane(std::integral_constant<int, 8>{});
  plane(std::integral_constant<int, 4>{});
  plane(std::integral_constant<int, 2>{});
  plane(std::integral_constant<int, 1>{});
}

/// Calls `f` with `bits`, 1 to 8, as an integral constant.
template <int max = 8, class F>
inline void with_bits(int bits, const F& f) {
  if (bits == max)
    f(std::integral_constant<int, max>{});
  else if constexpr (max > 1)
    with_bits<max - 1>(bits, f);
}

/// Packs a block of `count` codes. `codes` [block], 0 behind `count`.
template <int bits>
inline void pack_block(const std::uint8_t* codes, std::int64_t count, std::uint8_t* out) {
  for_planes<bits>(
      count, [&]<int width, int shift>(std::integral_constant<int, width>, std::integral_constant<int, shift>,
                                       std::int64_t bytes,
                                       std::int64_t offset) { pack_plane<width, shift>(codes, bytes, out + offset); });
}
/// Unpacks a block of `count` codes into `codes` [block]; elements behind `count` are unspecified.
template <int bits>
inline void unpack_block(const std::uint8_t* in, std::int64_t count, std::uint8_t* codes) {
  for_planes<bits>(
      count, [&]<int width, int shift>(std::integral_constant<int, width>, std::integral_constant<int, shift>,
                                       std::int64_t bytes,
                                       std::int64_t offset) { unpack_plane<width, shift>(in + offset, bytes, codes); });
}

/// Packs `count` codes, block by block.
inline void pack_row(const std::uint8_t* codes, std::int64_t count, int bits, std::uint8_t* out) {
  with_bits(bits, [&]<int constant>(std::integral_constant<int, constant>) {
    const std::int64_t bytes = block_bytes(block, constant);
    for (; count >= block; count -= block, codes += block, out += bytes) pack_block<constant>(codes, block, out);
    if (count == 0) return;
    std::uint8_t last[block] = {};
    std::copy_n(codes, count, last);
    pack_block<constant>(last, count, out);
  });
}
/// Unpacks `count` codes, block by block. `codes` has place for whole blocks; elements behind `count` are unspecified.
inline void unpack_blocks(const std::uint8_t* in, std::int64_t count, int bits, std::uint8_t* codes) {
  with_bits(bits, [&]<int constant>(std::integral_constant<int, constant>) {
    const std::int64_t bytes = block_bytes(block, constant);
    for (; count >= block; count -= block, codes += block, in += bytes) unpack_block<constant>(in, block, codes);
    if (count > 0) unpack_block<constant>(in, count, codes);
  });
}
/// Unpacks `count` codes into `codes` [count].
inline void unpack_row(const std::uint8_t* in, std::int64_t count, int bits, std::uint8_t* codes) {
  const std::int64_t whole = count / block * block;
  unpack_blocks(in, whole, bits, codes);
  std::uint8_t last[block];
  unpack_blocks(in + packed_bytes(whole, bits), count - whole, bits, last);
  std::copy_n(last, count - whole, codes + whole);
}

}  // namespace lacuna::quant
