// Parts of causal attention on the CPU: products whose rows read a range of the depth each, and softmax of rows that
// see a range of the columns each.
#pragma once

#include "core/parallel.h"
#include "ops/attention/attention_factors.h"

#include <algorithm>
#include <cstdint>

namespace lacuna::tile {

/// Elements of depth that one element of a factor has: 2 of Pair.
template <class Element>
inline constexpr std::int64_t depth_unit = std::is_same_v<Element, Pair> ? 2 : 1;

template <class C>
Left<C, false> from_depth(const Left<C, false>& a, std::int64_t begin) {
  return {a.data + begin, a.stride};
}
template <class C>
Left<C, true> from_depth(const Left<C, true>& a, std::int64_t begin) {
  return {a.data + begin * a.stride, a.stride};
}

/// a [height, depth] times the panels of [depth, columns], of which each tile of `rows` rows reads the depth that
/// `depth_of(first row, first column, columns)` says; where that is empty, the result is not computed. `depth`: of the
/// panels; element 0 of a's rows meets row `first` of them, a multiple of 2.
template <bool transposed, class Element, class DepthOf, class Finish>
void product_within(const Left<Element, transposed>& a, std::int64_t height, std::int64_t depth, const Element* panels,
                    std::int64_t columns, const DepthOf& depth_of, const Finish& finish, std::int64_t first = 0) {
  constexpr std::int64_t unit = depth_unit<Element>;
  const std::int64_t width = padded<Element>(columns), all = (depth + unit - 1) / unit;
  const auto panel = [&]<int vectors>(std::int64_t column) {
    constexpr std::int64_t panel_width = vectors * lanes<Element>;
    const Element* const b = panels + column * all;
    Vector<Sum<Element>> sums[rows * vectors];
    for (std::int64_t row = 0; row < height; row += rows) {
      const Range range = depth_of(row, column, panel_width);
      const std::int64_t begin = range.begin / unit, end = (range.end + unit - 1) / unit;
      if (begin >= end) continue;
      const std::int64_t count = std::min<std::int64_t>(rows, height - row);
      product_tile<vectors>(from_depth(a, begin), row, count, end - begin, b + (first / unit + begin) * panel_width,
                            sums);
      for (std::int64_t r = 0; r < count; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) finish(row + r, column + v * lanes<Element>, sums[r * vectors + v]);
      }
    }
  };
  std::int64_t column = 0;
  for (; column + 2 * lanes<Element> <= width; column += 2 * lanes<Element>) panel.template operator()<2>(column);
  if (column < width) panel.template operator()<1>(column);
}

/// Softmax without the division, in place, of rows whose columns outside `seen(row)` become zeros, up to `width`. The
/// scores are logarithms to base 2, and row i still has to be multiplied by inverse[i].
template <class C, class Seen>
void softmax_rows_within(C* scores, std::int64_t stride, std::int64_t count, std::int64_t width, const Seen& seen,
                         C* inverse) {
  constexpr C least = -std::numeric_limits<C>::infinity();
  for (std::int64_t first = 0; first < count; first += lanes<C>) {
    const std::int64_t own = std::min(lanes<C>, count - first);
    Vector<C> greatest[lanes<C>] = {}, sums[lanes<C>] = {};
    const auto whole_vectors = [](Range columns) {
      return Range{columns.begin / lanes<C> * lanes<C>, round_up(columns.end, lanes<C>)};
    };
    for (std::int64_t r = 0; r < own; ++r) {
      C* const row = scores + (first + r) * stride;
      const Range columns = seen(first + r), vectors = whole_vectors(columns);
      std::fill(row + vectors.begin, row + columns.begin, least);
      std::fill(row + columns.end, row + vectors.end, least);
      Vector<C> top = load(row + vectors.begin);
      for (std::int64_t j = vectors.begin + lanes<C>; j < vectors.end; j += lanes<C>) {
        const Vector<C> v = load(row + j);
        top = v > top ? v : top;
      }
      greatest[r] = top;
    }
    transpose<C>(greatest);
    Vector<C> tops = greatest[0];
    for (const Vector<C>& v : greatest) tops = v > tops ? v : tops;
    for (std::int64_t r = 0; r < own; ++r) {
      C* const row = scores + (first + r) * stride;
      const Range columns = seen(first + r), vectors = whole_vectors(columns);
      const C top = tops[r];
      Vector<C> sum{};
      for (std::int64_t j = vectors.begin; j < vectors.end; j += lanes<C>) {
        const Vector<C> p = exp2(load(row + j) - top);
        store(row + j, p);
        sum += p;  // what lies beside the columns is below 2^-125
      }
      std::fill(row, row + columns.begin, C(0));
      std::fill(row + columns.end, row + width, C(0));
      sums[r] = sum;
    }
    transpose<C>(sums);
    Vector<C> totals{};
    for (const Vector<C>& v : sums) totals += v;
    const Vector<C> inverses = C(1) / totals;
    for (std::int64_t r = 0; r < own; ++r) inverse[first + r] = inverses[r];
  }
}

// Products of one row with rows that are not packed, for queries that come one at a time.

/// sums[i] = factor · the product of `row` [padded(depth)], zeros behind its end, with row i of `from` [count, depth],
/// rows `stride` elements apart. Whole vectors of sums are written.
template <class T>
void products_with_rows(const Compute<T>* row, const T* from, std::int64_t stride, std::int64_t depth,
                        std::int64_t count, Compute<T> factor, Compute<T>* sums) {
  using C = Compute<T>;
  for (std::int64_t first = 0; first < count; first += lanes<C>) {
    const T* rows_from[lanes<C>];
    for (std::int64_t l = 0; l < lanes<C>; ++l) rows_from[l] = from + std::min(first + l, count - 1) * stride;
    Vector<C> square[lanes<C>] = {};
    for (std::int64_t k = 0; k < depth; k += lanes<C>) {
      const Vector<C> left = load(row + k);
#pragma GCC unroll 16
      for (std::int64_t l = 0; l < lanes<C>; ++l) square[l] += left * load_as(rows_from[l] + k, depth - k);
    }
    transpose<C>(square);
    Vector<C> sum{};
    for (const Vector<C>& v : square) sum += v;
    store(sums + first, sum * factor);
  }
}

/// to [columns] = factor · Σ weights[i] · row i of `from` [count, columns], rows `stride` elements apart.
template <class T>
void sum_of_rows(const Compute<T>* weights, const T* from, std::int64_t stride, std::int64_t count,
                 std::int64_t columns, Compute<T> factor, T* to) {
  using C = Compute<T>;
  constexpr std::int64_t together = 4;  // vectors
  for (std::int64_t column = 0; column < columns; column += together * lanes<C>) {
    Vector<C> sums[together] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const T* const row = from + i * stride + column;
#pragma GCC unroll 4
      for (std::int64_t v = 0; v < together; ++v)
        if (column + v * lanes<C> < columns)
          sums[v] += weights[i] * load_as(row + v * lanes<C>, columns - column - v * lanes<C>);
    }
    for (std::int64_t v = 0; v < together; ++v)
      if (column + v * lanes<C> < columns)
        store_as(to + column + v * lanes<C>, sums[v] * factor, columns - column - v * lanes<C>);
  }
}

}  // namespace lacuna::tile
