// Register-tiled matrix products of small matrices: the inner kernels of gemm and attention. The vector width follows
// the instruction set that the library is compiled for.
#pragma once

#include "core/dtype.h"
#include "core/vector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace lacuna::tile {

// A tile of rows x 2 vectors of sums, two vectors of b and one broadcast element of a fill the registers.
inline constexpr int rows = vector_bytes == 64 ? 12 : 6;  // of 32 registers, or 16

template <class C>
struct VectorOf {
  typedef C type __attribute__((vector_size(vector_bytes)));
};
template <class C>
using Vector = typename VectorOf<C>::type;
template <class C>
inline constexpr std::int64_t lanes = vector_bytes / static_cast<std::int64_t>(sizeof(C));

/// The type in which products of elements are summed.
template <class C>
struct SumOf {
  using type = C;
};
template <class C>
using Sum = typename SumOf<C>::type;

/// sum += element · right, by lane.
template <class C, class V>
inline void add_product(V& sum, C element, const V& right) {
  sum += element * right;
}

template <class C>
struct UnalignedOf {
  typedef Vector<C> type __attribute__((aligned(alignof(C))));
};

template <class C>
inline Vector<C> load(const C* from) {
  return *reinterpret_cast<const typename UnalignedOf<C>::type*>(from);
}
template <class C>
inline void store(C* to, const Vector<C>& v) {
  *reinterpret_cast<typename UnalignedOf<C>::type*>(to) = v;
}

/// A vector's worth of bf16 bits.
typedef std::uint16_t Halves __attribute__((vector_size(vector_bytes / 2), aligned(alignof(bf16)), may_alias));
typedef std::uint32_t WideBits __attribute__((vector_size(vector_bytes)));

inline Vector<float> widened(const bf16* from) {
  return std::bit_cast<Vector<float>>(__builtin_convertvector(*reinterpret_cast<const Halves*>(from), WideBits) << 16);
}
/// As bf16(float) rounds each lane.
inline void store_rounded(bf16* to, const Vector<float>& v) {
  const auto bits = std::bit_cast<WideBits>(v);
  const WideBits rounded = bits + 0x7fffU + ((bits >> 16) & 1U), quiet = bits | 0x400000U;
  *reinterpret_cast<Halves*>(to) = __builtin_convertvector((v != v ? quiet : rounded) >> 16, Halves);
}

#ifdef __AVX512F__
/// A mask of the first `count` lanes, fewer than all.
inline __mmask16 first_lanes(std::int64_t count) { return static_cast<__mmask16>((1U << count) - 1U); }
#endif

/// Stores the first `count` lanes, converted to T. Not inlined: for the tails of rows.
template <class T>
[[gnu::noinline]] void store_lanes(T* to, Vector<Compute<T>> v, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(v[i]);
}
/// Stores the first `count` lanes, or all, converted to T.
template <class T>
inline void store_as(T* to, const Vector<Compute<T>>& v, std::int64_t count) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    if (count >= lanes<C>) return store(to, v);
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float>) return _mm512_mask_storeu_ps(to, first_lanes(count), v);
#endif
  } else if constexpr (std::is_same_v<T, bf16>) {
    if (count >= lanes<C>) return store_rounded(to, v);
  }
  store_lanes(to, v, std::min(count, lanes<C>));
}
/// Loads the first `count` elements, or a whole vector, converted to the compute type; the other lanes are 0.
template <class T>
inline Vector<Compute<T>> load_as(const T* from, std::int64_t count) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    if (count >= lanes<C>) return load(from);
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float>) return _mm512_maskz_loadu_ps(first_lanes(count), from);
#endif
  } else if constexpr (std::is_same_v<T, bf16>) {
    if (count >= lanes<C>) return widened(from);
  }
  Vector<C> v{};
  for (std::int64_t i = 0; i < std::min(count, lanes<C>); ++i) v[i] = to_compute(from[i]);
  return v;
}

inline std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

/// 2^x per lane, relative error below 2e-7; x is clamped to [-126, 127]; NaN stays NaN.
inline Vector<float> exp2(Vector<float> x) {
  typedef std::int32_t Bits __attribute__((vector_size(vector_bytes)));
  constexpr float magic = 12582912.0F;  // puts the nearest integer into the low bits of the mantissa
  const Vector<float> min = Vector<float>{} - 126.0F, max = Vector<float>{} + 127.0F;
  x = min > x ? min : x;  // in this form each compiles to one instruction, and NaN passes
  x = max < x ? max : x;
  const Vector<float> shifted = x + magic;
  const Vector<float> r = x - (shifted - magic);
  Vector<float> p = 1.54697320e-4F * r + 1.34100010e-3F;  // minimax on [-1/2, 1/2]
  p = p * r + 9.61803078e-3F;
  p = p * r + 5.55029731e-2F;
  p = p * r + 2.40226511e-1F;
  p = p * r + 6.93147225e-1F;
  p = p * r + 1.0F;
  return p * std::bit_cast<Vector<float>>((std::bit_cast<Bits>(shifted) << 23) + 0x3f800000);
}
inline Vector<double> exp2(Vector<double> x) {
  for (std::int64_t i = 0; i < lanes<double>; ++i) x[i] = std::exp2(x[i]);
  return x;
}

/// One round of a transposition: in blocks of 2 · step lanes, exchanges the upper right quarter of (a; b) with the
/// lower left one.
template <std::size_t step, class V, std::size_t... x>
inline void swap_quarters(V& a, V& b, std::index_sequence<x...>) {
  constexpr std::size_t count = sizeof...(x);
  const V upper = __builtin_shufflevector(a, b, (x & step ? count + x - step : x)...);
  b = __builtin_shufflevector(a, b, (x & step ? count + x : x + step)...);
  a = upper;
}

/// Transposes a square of vectors in place.
template <class C, std::size_t step = 1>
inline void transpose(Vector<C> (&square)[lanes<C>]) {
  constexpr auto count = static_cast<std::size_t>(lanes<C>);
  if constexpr (step < count) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < count; ++i)
      if ((i & step) == 0) swap_quarters<step>(square[i], square[i + step], std::make_index_sequence<count>{});
    transpose<C, 2 * step>(square);
  }
}

/// Columns of a packed right factor [depth, columns], padded with zeros. It is stored as panels [depth, width] of two
/// vectors' width; the last panel may have one.
template <class C>
inline std::int64_t padded(std::int64_t columns) {
  return round_up(columns, lanes<C>);
}

/// Packs the rows of `from` [depth, columns], `stride` elements apart.
template <class T>
void pack(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, Compute<T>* panels) {
  using C = Compute<T>;
  for (std::int64_t column = 0; column < columns; column += 2 * lanes<C>) {
    const std::int64_t width = std::min(2 * lanes<C>, padded<C>(columns) - column);
    C* to = panels + column * depth;
    const T* row = from + column;
    for (std::int64_t k = 0; k < depth; ++k, to += width, row += stride)
      for (std::int64_t j = 0; j < width; j += lanes<C>) store(to + j, load_as(row + j, columns - column - j));
  }
}

/// Packs factor · the transpose of `from` [columns, depth], whose rows are `stride` elements apart.
template <class T>
void pack_transposed(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, Compute<T> factor,
                     Compute<T>* panels) {
  using C = Compute<T>;
  for (std::int64_t column = 0; column < columns; column += lanes<C>) {
    const std::int64_t first = column / (2 * lanes<C>)*(2 * lanes<C>);  // of the panel
    const std::int64_t width = std::min(2 * lanes<C>, padded<C>(columns) - first);
    C* const to = panels + first * depth + (column - first);
    for (std::int64_t k = 0; k < depth; k += lanes<C>) {
      Vector<C> square[lanes<C>];
      const T* const corner = from + column * stride + k;
      if (columns - column >= lanes<C> && depth - k >= lanes<C>) {
        const T* row = corner;
#pragma GCC unroll 16
        for (std::int64_t j = 0; j < lanes<C>; ++j, row += stride) square[j] = factor * load_as(row, lanes<C>);
        transpose<C>(square);
#pragma GCC unroll 16
        for (std::int64_t l = 0; l < lanes<C>; ++l) store(to + (k + l) * width, square[l]);
      } else {
        for (std::int64_t j = 0; j < lanes<C>; ++j)
          square[j] = column + j < columns ? factor * load_as(corner + j * stride, depth - k) : Vector<C>{};
        transpose<C>(square);
        for (std::int64_t l = 0; l < std::min(lanes<C>, depth - k); ++l) store(to + (k + l) * width, square[l]);
      }
    }
  }
}

/// The left factor of a product. Element (i, k) is data[i · stride + k]; if `transposed`,
/// data[i / rows · group + k · stride + i % rows], and whole groups of `rows` elements are read.
template <class C, bool transposed>
struct Left {
  const C* data;
  std::int64_t stride;
  std::int64_t group = rows;
};

/// Elements from one group of packed rows to the next, with space for the last whole vector.
template <class C>
inline std::int64_t packed_group(std::int64_t depth) {
  return round_up(depth * rows + lanes<C>, lanes<C>);
}

/// Packs the transpose of `from` [depth, height], rows `stride` elements apart, as the left factor
/// Left{packed, rows, packed_group(depth)}.
template <class T>
void pack_left(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t height, Compute<T>* packed) {
  using C = Compute<T>;
  const std::int64_t group = packed_group<C>(depth);
  const std::int64_t reach = round_up(rows, lanes<C>);  // elements that the vectors of one group load
  const std::int64_t whole = height < reach ? 0 : (height - reach) / rows + 1;
  for (std::int64_t k = 0; k < depth; ++k) {
    const T* const row = from + k * stride;
    C* to = packed + k * rows;
    for (std::int64_t g = 0; g < whole; ++g, to += group)
      for (std::int64_t j = 0; j < rows; j += lanes<C>) store(to + j, load_as(row + g * rows + j, lanes<C>));
    for (std::int64_t i = whole * rows; i < height; i += rows, to += group)
      for (std::int64_t j = 0; j < std::min<std::int64_t>(rows, height - i); ++j) to[j] = to_compute(row[i + j]);
  }
}

/// A left factor with rows `stride` elements apart, in the compute type: in place, or converted into `copy`
/// [height, depth].
template <class T>
inline Left<Compute<T>, false> left_rows(const T* from, std::int64_t stride, std::int64_t height, std::int64_t depth,
                                         Compute<T>* copy) {
  if constexpr (std::is_same_v<T, Compute<T>>) return {from, stride};
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t k = 0; k < depth; ++k) copy[i * depth + k] = to_compute(from[i * stride + k]);
  return {copy, depth};
}

/// One tile of a product into `sums` [rows, vectors], of which the first `count` rows are valid. Not inlined: among
/// other code the sums would not stay in registers.
template <int vectors, bool transposed, class C>
[[gnu::noinline]] void product_tile(const Left<C, transposed>& a, std::int64_t row, std::int64_t count,
                                    std::int64_t depth, const C* b, Vector<Sum<C>>* sums) {
  Vector<Sum<C>> sum[rows][vectors] = {};
  const C* left[rows];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
    left[r] = transposed ? a.data + row / rows * a.group + r
                         : a.data + (row + std::min<std::int64_t>(r, count - 1)) * a.stride;
  const std::int64_t step = transposed ? a.stride : 1;
  for (std::int64_t k = 0; k < depth; ++k, b += vectors * lanes<C>) {
    Vector<C> right[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) right[v] = load(b + v * lanes<C>);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const C element = transposed ? left[0][k * step + r] : left[r][k];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) add_product(sum[r][v], element, right[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sums[r * vectors + v] = sum[r][v];
  }
}

/// The product with the panel that starts at `column`.
template <int vectors, bool transposed, class C, class Finish>
inline void product_panel(const Left<C, transposed>& a, std::int64_t height, std::int64_t depth, const C* panel,
                          std::int64_t column, const Finish& finish) {
  Vector<Sum<C>> sums[rows * vectors];
  for (std::int64_t row = 0; row < height; row += rows) {
    const std::int64_t count = std::min<std::int64_t>(rows, height - row);
    product_tile<vectors>(a, row, count, depth, panel, sums);
    for (std::int64_t r = 0; r < count; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) finish(row + r, column + v * lanes<C>, sums[r * vectors + v]);
    }
  }
}

/// a [height, depth] times packed panels [depth, columns]; `finish(row, column, vector of sums)` receives the result.
template <bool transposed, class C, class Finish>
void product(const Left<C, transposed>& a, std::int64_t height, std::int64_t depth, const C* panels,
             std::int64_t columns, const Finish& finish) {
  const std::int64_t width = padded<C>(columns);
  std::int64_t column = 0;
  for (; column + 2 * lanes<C> <= width; column += 2 * lanes<C>)
    product_panel<2>(a, height, depth, panels + column * depth, column, finish);
  if (column < width) product_panel<1>(a, height, depth, panels + column * depth, column, finish);
}

}  // namespace lacuna::tile
