// Helpers of row-wise kernels: a row in the compute type, and reductions over it.
#pragma once

#include "core/parallel.h"
#include "ops/kernels/tile.h"

#include <limits>
#include <vector>

namespace lacuna {

/// A row [n] in the compute type: `row` itself if it has that type, otherwise converted into `scratch` [n].
template <class T>
const Compute<T>* in_compute_type(const T* row, std::int64_t n, Compute<T>* scratch) {
  if constexpr (is_half<T>) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) scratch[i] = to_compute(row[i]);
    return scratch;
  } else {
    return row;
  }
}

/// Scratch [n] for in_compute_type; empty if T is its own compute type.
template <class T>
std::vector<Compute<T>> row_scratch(std::int64_t n) {
  return std::vector<Compute<T>>(is_half<T> ? static_cast<std::size_t>(n) : 0);
}

/// Σ term(values...) over arrays [n]. `term` is called with vectors of the compute type C and with single values. Four
/// independent vectors of sums hide the latency of addition.
template <class Term, class C, class... Rest>
C sum_of(std::int64_t n, const Term& term, const C* first, const Rest*... rest) {
  constexpr std::int64_t width = tile::lanes<C>;
  tile::Vector<C> a{}, b{}, c{}, d{};
  const auto at = [&](std::int64_t i) { return term(tile::load(first + i), tile::load(rest + i)...); };
  std::int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    a += at(i);
    b += at(i + width);
    c += at(i + 2 * width);
    d += at(i + 3 * width);
  }
  for (; i + width <= n; i += width) a += at(i);
  a = (a + b) + (c + d);
  C sum{};
  for (std::int64_t lane = 0; lane < width; ++lane) sum += a[lane];
  for (; i < n; ++i) sum += term(first[i], rest[i]...);
  return sum;
}

/// The largest of `values` [n]; -infinity if n is 0.
template <class C>
C max_of(std::int64_t n, const C* values) {
  C largest = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

/// Number of rows of `width` elements below which one thread is faster.
inline std::int64_t serial_rows(std::int64_t width) { return 16384 / std::max<std::int64_t>(width, 1) + 1; }

}  // namespace lacuna
