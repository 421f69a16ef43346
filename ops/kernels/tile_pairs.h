// Products of small matrices of bf16 for tile.h: two neighbours in depth are one element, multiplied by one instruction
// where the processor has it (AVX512_BF16) and summed in f32. A library for AVX-512 has the instructions and asks the
// processor; they are assembly because the compiler takes intrinsics for the whole library's instruction set only.
#pragma once

#include "core/processor.h"
#include "ops/kernels/tile.h"

#include <cstdint>

namespace lacuna::tile {

inline constexpr bool has_pairs = vector_bytes == 64;
inline bool multiplies_pairs() { return has_pairs && processor_multiplies_bf16(); }

/// Values 2·k and 2·k + 1 of a row or column. Rows of tokens are read as pairs in place.
struct [[gnu::may_alias]] Pair {
  std::uint32_t bits;  // the first value in the lower half
};

template <>
struct VectorOf<Pair> {
  typedef std::uint32_t type __attribute__((vector_size(vector_bytes)));
};
template <>
struct SumOf<Pair> {
  using type = float;
};

inline std::int64_t pairs_of(std::int64_t depth) { return (depth + 1) / 2; }

/// sum += element · right, by lane.
inline void add_product(Vector<float>& sum, Pair element, const Vector<Pair>& right) {
#ifdef __AVX512F__
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(Vector<Pair>{} + element.bits), "v"(right));
#else
  constexpr std::uint32_t upper = 0xffff0000U;
  sum += std::bit_cast<float>(element.bits << 16) * std::bit_cast<Vector<float>>(right << 16) +
         std::bit_cast<float>(element.bits & upper) * std::bit_cast<Vector<float>>(right & upper);
#endif
}

#ifdef __AVX512F__
inline Halves halves(const Vector<float>& v) {
  Halves rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(v));
  return rounded;
}
#endif

/// Stores a vector, rounded; the processor's instruction for it makes 0 of numbers below 2^-126.
inline void store_normal(bf16* to, const Vector<float>& v) {
  if (!multiplies_pairs()) return store_rounded(to, v);
#ifdef __AVX512F__
  *reinterpret_cast<Halves*>(to) = halves(v);
#endif
}

/// Lane by lane, the pairs of two vectors of f32, rounded.
inline Vector<Pair> paired(const Vector<float>& first, const Vector<float>& second) {
#ifdef __AVX512F__
  const auto lower = __builtin_convertvector(halves(first), Vector<Pair>);
  const auto upper = __builtin_convertvector(halves(second), Vector<Pair>);
  return lower | upper << 16;
#else
  bf16 a[lanes<float>], b[lanes<float>];
  store_rounded(a, first);
  store_rounded(b, second);
  Vector<Pair> pairs{};
  for (std::int64_t i = 0; i < lanes<float>; ++i) pairs[i] = a[i].bits | std::uint32_t{b[i].bits} << 16;
  return pairs;
#endif
}

/// Neighbouring values of two vectors of f32, rounded.
inline Vector<Pair> neighbours_paired(const Vector<float>& low, const Vector<float>& high) {
#ifdef __AVX512F__
  Vector<Pair> pairs;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(pairs) : "v"(high), "v"(low));
  return pairs;
#else
  alignas(Pair) bf16 values[2 * lanes<float>];
  store_rounded(values, low);
  store_rounded(values + lanes<float>, high);
  return load(reinterpret_cast<const Pair*>(values));
#endif
}

/// The first `count` values of a row, or a vector's worth, each in the lower half of a lane; the other lanes are 0.
inline Vector<Pair> lower_halves(const bf16* from, std::int64_t count) {
  if (count >= lanes<Pair>) return __builtin_convertvector(*reinterpret_cast<const Halves*>(from), Vector<Pair>);
  Vector<Pair> values{};
  for (std::int64_t i = 0; i < count; ++i) values[i] = from[i].bits;
  return values;
}

/// Packs the rows of `from` [depth, columns], `stride` elements apart, into panels [pairs_of(depth), columns].
inline void pack_pairs(const bf16* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, Pair* panels) {
  for (std::int64_t column = 0; column < columns; column += 2 * lanes<Pair>) {
    const std::int64_t width = std::min(2 * lanes<Pair>, padded<Pair>(columns) - column);
    Pair* to = panels + column * pairs_of(depth);
    const bf16* row = from + column;
    for (std::int64_t k = 0; k < depth; k += 2, to += width, row += 2 * stride)
      for (std::int64_t j = 0; j < width; j += lanes<Pair>) {
        const std::int64_t count = columns - column - j;
        Vector<Pair> pairs = lower_halves(row + j, count);
        if (k + 1 < depth) pairs |= lower_halves(row + stride + j, count) << 16;
        store(to + j, pairs);
      }
  }
}

/// A vector's worth of pairs in a row of tokens.
typedef std::uint32_t TokenPairs __attribute__((vector_size(vector_bytes), aligned(alignof(bf16)), may_alias));

/// The first `count` values of a row as pairs, or a vector's worth; the others are 0.
inline Vector<Pair> load_pairs(const bf16* from, std::int64_t count) {
  if (count >= 2 * lanes<Pair>) return *reinterpret_cast<const TokenPairs*>(from);
  Vector<Pair> pairs{};
  for (std::int64_t i = 0; i < count; ++i) pairs[i / 2] |= std::uint32_t{from[i].bits} << (i % 2 * 16);
  return pairs;
}

/// Packs the transpose of `from` [columns, depth], whose rows are `stride` elements apart, into panels
/// [pairs_of(depth), columns].
inline void pack_pairs_transposed(const bf16* from, std::int64_t stride, std::int64_t depth, std::int64_t columns,
                                  Pair* panels) {
  for (std::int64_t column = 0; column < columns; column += lanes<Pair>) {
    const std::int64_t first = column / (2 * lanes<Pair>)*(2 * lanes<Pair>);  // of the panel
    const std::int64_t width = std::min(2 * lanes<Pair>, padded<Pair>(columns) - first);
    Pair* const to = panels + first * pairs_of(depth) + (column - first);
    for (std::int64_t k = 0; k < pairs_of(depth); k += lanes<Pair>) {
      Vector<Pair> square[lanes<Pair>];
      for (std::int64_t j = 0; j < lanes<Pair>; ++j)
        square[j] =
            column + j < columns ? load_pairs(from + (column + j) * stride + 2 * k, depth - 2 * k) : Vector<Pair>{};
      transpose<Pair>(square);
      for (std::int64_t l = 0; l < std::min(lanes<Pair>, pairs_of(depth) - k); ++l)
        store(to + (k + l) * width, square[l]);
    }
  }
}

/// Rows of an even depth and `stride` as the left factor in place; others are copied to `copy` [height, pairs].
inline Left<Pair, false> left_pairs(const bf16* from, std::int64_t stride, std::int64_t height, std::int64_t depth,
                                    Pair* copy) {
  if (depth % 2 == 0 && stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(from) % sizeof(Pair) == 0)
    return {reinterpret_cast<const Pair*>(from), stride / 2};
  const std::int64_t pairs = pairs_of(depth);
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t k = 0; k < pairs; ++k) {
      const bf16* const at = from + i * stride + 2 * k;
      copy[i * pairs + k].bits = at[0].bits | (2 * k + 1 < depth ? std::uint32_t{at[1].bits} << 16 : 0U);
    }
  return {copy, pairs};
}

/// Rounds rows of f32 [count, width], `stride` elements apart, where they are, to the left factor [count, width]. Rows
/// have space for whole vectors.
inline Left<Pair, false> rows_as_pairs(float* from, std::int64_t stride, std::int64_t count, std::int64_t width) {
  for (std::int64_t i = 0; i < count; ++i) {
    float* const row = from + i * stride;
    if (width % 2 != 0) row[width] = 0;
    auto* const to = reinterpret_cast<Pair*>(row);
    for (std::int64_t j = 0; j < width; j += 2 * lanes<float>) {
      const Vector<float> low = load(row + j);
      const Vector<float> high = j + lanes<float> < width ? load(row + j + lanes<float>) : Vector<float>{};
      store(to + j / 2, neighbours_paired(low, high));
    }
  }
  return {reinterpret_cast<const Pair*>(from), stride};
}

/// Rounds rows of f32 [count, width], `stride` elements apart, to the left factor that is their transpose
/// [width, count], written to `to` [count, stride], which may be their own memory. Rows have space for whole
/// vectors.
inline Left<Pair, true> columns_as_pairs(const float* from, std::int64_t stride, std::int64_t count, std::int64_t width,
                                         float* to) {
  for (std::int64_t i = 0; i < count; i += 2)
    for (std::int64_t j = 0; j < width; j += lanes<float>) {
      const Vector<float> first = load(from + i * stride + j);
      const Vector<float> second = i + 1 < count ? load(from + (i + 1) * stride + j) : Vector<float>{};
      store(reinterpret_cast<Pair*>(to) + i * stride + j, paired(first, second));
    }
  return {reinterpret_cast<const Pair*>(to), 2 * stride};
}

}  // namespace lacuna::tile
