// As many floats at a time as the machine's vectors hold, and as many of other types, in vectors of the compiler.
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

/// Elements of the vectors that hold `count`.
constexpr std::int64_t whole_vectors(std::int64_t count) { return (count + lanes - 1) / lanes * lanes; }

// Memory that is read or written: [lanes], at any address.

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

// All are in line: GCC 12 counts an instruction a lane, and calls what has 16 of them, by way of memory.

// Conversions lane by lane become one instruction; those of whole vectors take dozens where the widths differ by more
// than twice (GCC 12).
template <class C, class T, std::size_t... i>
[[gnu::always_inline]] inline Lanes<C> converted(const T& from, std::index_sequence<i...>) {
  return Lanes<C>{static_cast<C>(from[i])...};
}
/// Lanes of another type. `from`: an array or a vector.
template <class C, class T>
[[gnu::always_inline]] inline Lanes<C> converted(const T& from) {
  return converted<C>(from, std::make_index_sequence<lanes>());
}
static_assert(std::endian::native == std::endian::little, "lanes are cut by the places of their bytes");
/// Of every lane the bytes `offset`, `offset` + 1, ..., as many as an R has.
template <class R, std::size_t offset, class Whole, std::size_t... i>
[[gnu::always_inline]] inline Lanes<R> bytes_of_lanes(const Whole& all, std::index_sequence<i...>) {
  const auto bytes = std::bit_cast<Lanes<std::uint32_t>>(all);
  typedef std::uint8_t Bytes __attribute__((vector_size(sizeof bytes)));
  const auto from = std::bit_cast<Bytes>(bytes);
  return std::bit_cast<Lanes<R>>(__builtin_shufflevector(from, from, (i / sizeof(R) * 4 + offset + i % sizeof(R))...));
}
/// Lanes of 32 bits, moved down by `shift`, whole bytes, and cut to R. AVX-512 has instructions for it, which
/// conversions become; with AVX2 a shuffle of bytes takes the fewest (GCC 12).
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
  // A byte of each vector in every lane.
  const Words mixed = upper_halves(all[0], all[2]) | upper_halves(all[1], all[3]) << 8;
  // In every 16 bytes four of a vector, four of the next...
  const auto bytes = std::bit_cast<Bytes>(mixed);
  const auto by_vector =
      std::bit_cast<Words>(__builtin_shufflevector(bytes, bytes, (byte / 16 * 16 + byte % 4 * 4 + byte % 16 / 4)...));
  constexpr std::size_t fours = lanes / 4;  // of each vector
  const Words in_order = __builtin_shufflevector(by_vector, by_vector, (lane % fours * 4 + lane / fours)...);
  std::memcpy(to, &in_order, sizeof in_order);
}
/// Writes the third byte of every lane of four vectors, one vector's behind the other's; the fourth bytes are to be 0.
/// It takes two thirds of the instructions that `cut` takes with AVX2. `to`: [4 · lanes].
[[gnu::always_inline]] inline void store_third_bytes(const Lanes<std::int32_t> (&all)[4], std::uint8_t* to) {
  store_third_bytes(all, to, std::make_index_sequence<2 * lanes>(), std::make_index_sequence<4 * lanes>(),
                    std::make_index_sequence<lanes>());
}
/// As C.
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

/// Asks for elements [begin, end), so that their misses pass while what lies in the cache is coded.
template <class T>
inline void prefetch(const T* x, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t line = 64 / sizeof(T);  // of a cache, in elements
  for (std::int64_t i = begin; i < end; i += line) __builtin_prefetch(x + i);
}

template <std::size_t by, class Vector, std::size_t... i>
[[gnu::always_inline]] inline Vector exchanged(const Vector& all, std::index_sequence<i...>) {
  return __builtin_shufflevector(all, all, (i ^ by)...);
}
/// The lanes of a vector of any length, those `by` apart, a power of two, in each other's place.
template <std::size_t by, class Vector>
[[gnu::always_inline]] inline Vector exchanged(const Vector& all) {
  return exchanged<by>(all, std::make_index_sequence<sizeof(Vector) / sizeof(all[0])>());
}

/// Numbers all, to the nearest.
template <class T>
[[gnu::always_inline]] inline void store_as(const Lanes<float>& values, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    store<float>(values, to);
  } else if constexpr (std::is_same_v<T, bf16>) {  // the rounding of bf16(float), without its question about NaN
    const auto bits = std::bit_cast<Lanes<std::uint32_t>>(values);
    const auto rounded = cut<std::uint16_t, 16>(bits + 0x7fffU + ((bits >> 16) & 1U));
    std::memcpy(static_cast<void*>(to), &rounded, sizeof rounded);
  } else {
    for (std::int64_t lane = 0; lane < lanes; ++lane) to[lane] = static_cast<T>(values[lane]);
  }
}

}  // namespace lacuna::quant
