// Vectors of as many elements of any type as a vector register holds floats, in the compiler's vector extension.
#pragma once

#include "core/dtype.h"
#include "core/vector.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace lacuna::quant {

inline constexpr std::int64_t lanes = vector_bytes / 4;

template <class C>
struct LanesOf {
  typedef C type __attribute__((vector_size(lanes * sizeof(C))));
};
template <class C>
using Lanes = typename LanesOf<C>::type;

/// `count` rounded up to whole vectors.
constexpr std::int64_t whole_vectors(std::int64_t count) { return (count + lanes - 1) / lanes * lanes; }

// Pointers are to [lanes] elements, unaligned.

template <class C>
[[gnu::always_inline]] inline Lanes<C> load(const C* from) {
  Lanes<C> all;
  std::memcpy(&all, from, sizeof all);
  return all;
}
template <class C>
[[gnu::always_inline]] inline void store(const Lanes<C>& all, C* to) {
  std::memcpy(to, &all, sizeof all);
}

// All are always_inline: GCC 12 counts one instruction per lane and would call functions of 16 lanes, passing vectors
// through memory.

// Lane by lane, a conversion compiles to one instruction; __builtin_convertvector takes dozens if the widths differ by
// more than a factor of two (GCC 12).
template <class C, class T, std::size_t... i>
[[gnu::always_inline]] inline Lanes<C> converted(const T& from, std::index_sequence<i...>) {
  return Lanes<C>{static_cast<C>(from[i])...};
}
/// Converts all lanes to C. `from`: an array or a vector.
template <class C, class T>
[[gnu::always_inline]] inline Lanes<C> converted(const T& from) {
  return converted<C>(from, std::make_index_sequence<lanes>());
}
static_assert(std::endian::native == std::endian::little, "bytes of lanes are selected by their address");
/// Bytes [offset, offset + sizeof(R)) of every lane.
template <class R, std::size_t offset, class Whole, std::size_t... i>
[[gnu::always_inline]] inline Lanes<R> bytes_of_lanes(const Whole& all, std::index_sequence<i...>) {
  const auto bytes = std::bit_cast<Lanes<std::uint32_t>>(all);
  typedef std::uint8_t Bytes __attribute__((vector_size(sizeof bytes)));
  const auto from = std::bit_cast<Bytes>(bytes);
  return std::bit_cast<Lanes<R>>(__builtin_shufflevector(from, from, (i / sizeof(R) * 4 + offset + i % sizeof(R))...));
}
/// Lanes of 32 bits shifted right by `shift`, a multiple of 8, and truncated to R. With AVX-512 a conversion compiles
/// to one instruction; with AVX2 a byte shuffle is shortest (GCC 12).
template <class R, int shift, class Whole>
[[gnu::always_inline]] inline Lanes<R> cut(const Whole& all) {
  if constexpr (vector_bytes == 64)
    return converted<R>(all >> shift);
  else
    return bytes_of_lanes<R, shift / 8>(all, std::make_index_sequence<lanes * sizeof(R)>());
}
template <std::size_t... half, std::size_t... byte, std::size_t... lane>
[[gnu::always_inline]] inline void store_third_bytes(const Lanes<std::int32_t> (&all)[4], std::uint8_t* to,
                                                     std::index_sequence<half...>, std::index_sequence<byte...>,
                                                     std::index_sequence<lane...>) {
  using Words = Lanes<std::uint32_t>;
  typedef std::uint16_t Halves __attribute__((vector_size(sizeof(Words))));
  typedef std::uint8_t Bytes __attribute__((vector_size(sizeof(Words))));
  const auto upper_halves = [](const Lanes<std::int32_t>& low, const Lanes<std::int32_t>& high) {
    const auto moved = std::bit_cast<Halves>(std::bit_cast<Words>(low) >> 16), unmoved = std::bit_cast<Halves>(high);
    return std::bit_cast<Words>(__builtin_shufflevector(moved, unmoved, (half % 2 == 0 ? half : 2 * lanes + half)...));
  };
  // Every lane: one byte of each vector.
  const Words mixed = upper_halves(all[0], all[2]) | upper_halves(all[1], all[3]) << 8;
  // Every 16 bytes: four of the first vector, four of the second, ...
  const auto bytes = std::bit_cast<Bytes>(mixed);
  const auto by_vector =
      std::bit_cast<Words>(__builtin_shufflevector(bytes, bytes, (byte / 16 * 16 + byte % 4 * 4 + byte % 16 / 4)...));
  constexpr std::size_t fours = lanes / 4;  // groups of four per vector
  const Words in_order = __builtin_shufflevector(by_vector, by_vector, (lane % fours * 4 + lane / fours)...);
  std::memcpy(to, &in_order, sizeof in_order);
}
/// Writes the third byte of every lane of four vectors, one vector behind the other; fourth bytes must be 0. With AVX2
/// two thirds of the instructions of `cut`. `to`: [4 · lanes].
[[gnu::always_inline]] inline void store_third_bytes(const Lanes<std::int32_t> (&all)[4], std::uint8_t* to) {
  store_third_bytes(all, to, std::make_index_sequence<2 * lanes>(), std::make_index_sequence<4 * lanes>(),
                    std::make_index_sequence<lanes>());
}
/// Loads and converts to C.
template <class C, class T>
[[gnu::always_inline]] inline Lanes<C> load_as(const T* from) {
  if constexpr (std::is_same_v<C, T>) {
    return load(from);
  } else if constexpr (std::is_same_v<T, bf16>) {
    std::uint16_t halves[lanes];
    std::memcpy(halves, from, sizeof halves);
    return converted<C>(std::bit_cast<Lanes<float>>(converted<std::uint32_t>(halves) << 16));
  } else {
    return converted<C>(from);
  }
}

/// Prefetches elements [begin, end).
template <class T>
inline void prefetch(const T* x, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t line = 64 / sizeof(T);  // elements per cache line
  for (std::int64_t i = begin; i < end; i += line) __builtin_prefetch(x + i);
}

template <std::size_t by, class Vector, std::size_t... i>
[[gnu::always_inline]] inline Vector exchanged(const Vector& all, std::index_sequence<i...>) {
  return __builtin_shufflevector(all, all, (i ^ by)...);
}
/// Exchanges lanes i and i ^ by, for a vector of any length; `by` is a power of two.
template <std::size_t by, class Vector>
[[gnu::always_inline]] inline Vector exchanged(const Vector& all) {
  return exchanged<by>(all, std::make_index_sequence<sizeof(Vector) / sizeof(all[0])>());
}

/// Rounds to nearest and stores. No lane is NaN.
template <class T>
[[gnu::always_inline]] inline void store_as(const Lanes<float>& values, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    store<float>(values, to);
  } else if constexpr (std::is_same_v<T, bf16>) {  // as bf16(float), without its test for NaN
    const auto bits = std::bit_cast<Lanes<std::uint32_t>>(values);
    const auto rounded = cut<std::uint16_t, 16>(bits + 0x7fffU + ((bits >> 16) & 1U));
    std::memcpy(static_cast<void*>(to), &rounded, sizeof rounded);
  } else {
    for (std::int64_t lane = 0; lane < lanes; ++lane) to[lane] = static_cast<T>(values[lane]);
  }
}

}  // namespace lacuna::quant
