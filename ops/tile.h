// Small matrix products out of registers: the inner kernels of attention. The vector width follows the instruction set
// that the library is compiled for.
#pragma once

#include "core/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace lacuna::tile {

// A tile of rows · 2 vectors of sums, with two vectors of b and one element of a, fills the registers.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, rows = 12;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32, rows = 6;
#else
inline constexpr int vector_bytes = 16, rows = 6;
#endif

template <class C>
struct VectorOf {
  typedef C type __attribute__((vector_size(vector_bytes)));
};
template <class C>
using Vector = typename VectorOf<C>::type;
template <class C>
inline constexpr std::int64_t lanes = vector_bytes / static_cast<std::int64_t>(sizeof(C));

template <class C>
inline Vector<C> load(const C* from) {
  Vector<C> v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <class C>
inline void store(C* to, const Vector<C>& v) {
  std::memcpy(to, &v, sizeof(v));
}
/// The first `count` lanes, all or fewer, converted to T.
template <class T>
inline void store_as(T* to, const Vector<Compute<T>>& v, std::int64_t count) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    if (count >= lanes<C>) {
      store(to, v);
      return;
    }
  }
  for (std::int64_t i = 0; i < std::min(count, lanes<C>); ++i) to[i] = static_cast<T>(v[i]);
}

inline std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

template <class C>
inline C sum_lanes(const Vector<C>& v) {
  C sum = 0;
  for (std::int64_t i = 0; i < lanes<C>; ++i) sum += v[i];
  return sum;
}

/// 2^x lane by lane, relative error below 2e-7; x is held to [-126, 127]; NaN stays NaN.
inline Vector<float> exp2(Vector<float> x) {
  typedef std::int32_t Bits __attribute__((vector_size(vector_bytes)));
  constexpr float magic = 12582912.0F;  // puts the nearest integer into the low bits of the mantissa
  x = x < -126.0F ? Vector<float>{} - 126.0F : x;
  x = x > 127.0F ? Vector<float>{} + 127.0F : x;
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

/// A matrix [depth, columns] as the right factor: panels of two vectors' width (the last may have one), each [depth,
/// width], columns padded with zeros.
template <class C>
inline std::int64_t padded(std::int64_t columns) {
  return round_up(columns, lanes<C>);
}

/// Packs the rows of `from` [depth, columns], `stride` elements apart.
template <class T, class C>
void pack(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, C* panels) {
  for (std::int64_t column = 0; column < columns; column += 2 * lanes<C>) {
    const std::int64_t width = std::min(2 * lanes<C>, padded<C>(columns) - column);
    const std::int64_t valid = std::min(width, columns - column);
    C* to = panels + column * depth;
    for (std::int64_t k = 0; k < depth; ++k, to += width) {
      const T* const row = from + k * stride + column;
      for (std::int64_t j = 0; j < valid; ++j) to[j] = to_compute(row[j]);
      for (std::int64_t j = valid; j < width; ++j) to[j] = C(0);
    }
  }
}

/// Packs factor · the transpose of `from` [columns, depth], whose rows are `stride` elements apart.
template <class T, class C>
void pack_transposed(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, C factor,
                     C* panels) {
  for (std::int64_t column = 0; column < columns; column += 2 * lanes<C>) {
    const std::int64_t width = std::min(2 * lanes<C>, padded<C>(columns) - column);
    const std::int64_t valid = std::min(width, columns - column);
    C* const to = panels + column * depth;
    for (std::int64_t j = 0; j < valid; ++j)
      for (std::int64_t k = 0; k < depth; ++k) to[k * width + j] = factor * to_compute(from[(column + j) * stride + k]);
    for (std::int64_t j = valid; j < width; ++j)
      for (std::int64_t k = 0; k < depth; ++k) to[k * width + j] = C(0);
  }
}

/// The left factor of a product: element (i, k) lies at data[i · stride + k], or at data[k · stride + i] where it is
/// `transposed` (and then rows - 1 elements behind the last one are read, too).
template <class C, bool transposed>
struct Left {
  const C* data;
  std::int64_t stride;
};

/// One tile of a product: `count` of its `rows` rows count. Calls finish(row, column, vector of sums) for each vector.
template <int vectors, bool transposed, class C, class Finish>
inline void product_tile(const Left<C, transposed>& a, std::int64_t row, std::int64_t count, std::int64_t depth,
                         const C* b, std::int64_t column, Finish&& finish) {
  Vector<C> sum[rows][vectors] = {};
  const C* left[rows];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
    left[r] = transposed ? a.data + row + r : a.data + (row + std::min<std::int64_t>(r, count - 1)) * a.stride;
  const std::int64_t step = transposed ? a.stride : 1;
  for (std::int64_t k = 0; k < depth; ++k, b += vectors * lanes<C>) {
    Vector<C> right[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) right[v] = load(b + v * lanes<C>);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const C element = transposed ? left[0][k * step + r] : left[r][k];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sum[r][v] += element * right[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    if (r >= count) break;
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) finish(row + r, column + v * lanes<C>, sum[r][v]);
  }
}

/// a [height, depth] times packed panels [depth, columns]; finish(row, column, vector of sums) takes the result.
template <bool transposed, class C, class Finish>
void product(const Left<C, transposed>& a, std::int64_t height, std::int64_t depth, const C* panels,
             std::int64_t columns, Finish&& finish) {
  const std::int64_t width = padded<C>(columns);
  for (std::int64_t column = 0; column < width; column += 2 * lanes<C>) {
    for (std::int64_t row = 0; row < height; row += rows) {
      const std::int64_t count = std::min<std::int64_t>(rows, height - row);
      if (width - column >= 2 * lanes<C>)
        product_tile<2>(a, row, count, depth, panels + column * depth, column, finish);
      else
        product_tile<1>(a, row, count, depth, panels + column * depth, column, finish);
    }
  }
}

}  // namespace lacuna::tile
