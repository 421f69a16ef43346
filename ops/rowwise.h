// What kernels that go row by row share: a row in the compute type, and sums along it.
#pragma once

#include "core/parallel.h"

#include <limits>
#include <vector>

namespace lacuna {

/// A row [n] in the compute type: `row` itself where it has that type, otherwise a copy in `scratch` [n].
template <class T>
const Compute<T>* in_compute_type(const T* row, std::int64_t n, Compute<T>* scratch) {
  if constexpr (is_half<T>) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) scratch[i] = to_compute(row[i]);
    return scratch;
  } else {
    return row;
  }
}

/// Memory for `in_compute_type`: none where it will not be used.
template <class T>
std::vector<Compute<T>> row_scratch(std::int64_t n) {
  return std::vector<Compute<T>>(is_half<T> ? static_cast<std::size_t>(n) : 0);
}

/// Σ term(i) over [0, n), as four sums side by side: one alone would wait for its own additions.
template <class C, class Term>
C sum_of(std::int64_t n, const Term& term) {
  const std::int64_t quarter = n / 4;
  C a{}, b{}, c{}, d{};
#pragma omp simd reduction(+ : a, b, c, d)
  for (std::int64_t i = 0; i < quarter; ++i) {
    a += term(i);
    b += term(quarter + i);
    c += term(2 * quarter + i);
    d += term(3 * quarter + i);
  }
  for (std::int64_t i = 4 * quarter; i < n; ++i) a += term(i);
  return (a + b) + (c + d);
}

/// The largest of [n] values; -infinity for none.
template <class C>
C max_of(std::int64_t n, const C* values) {
  C largest = -std::numeric_limits<C>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < n; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

/// Fewest rows of `width` elements that are worth several threads.
inline std::int64_t serial_rows(std::int64_t width) { return 16384 / std::max<std::int64_t>(width, 1) + 1; }

}  // namespace lacuna
