// The inner kernel of gather and winograd: a few rows times a panel of 16 columns, with sums in registers.
#pragma once

#include "ops/kernels/tile.h"

#include <cstdint>
#include <type_traits>

namespace lacuna::panel {

using tile::load;
using tile::store;
using Vector = tile::Vector<float>;

inline constexpr int lanes = tile::lanes<float>;
inline constexpr int width = 16;  // columns of a panel: usual channel counts are multiples of it
inline constexpr int vectors = width / lanes;
inline constexpr int max_rows = 12 / vectors;  // 12 accumulators leave registers for the panel and a broadcast

/// Keeps a value in its register. Compilers would reload it from memory at each use, and loads would be the bottleneck.
inline Vector held(Vector value) {
#ifdef __x86_64__
  __asm__("" : "+v"(value));
#endif
  return value;
}

template <int rows>
struct Sums {
  Vector values[rows][vectors] = {};

  /// values[r] += factor(r) · panel_row.
  template <class F>
  void add(const float* panel_row, const F& factor) {
    Vector columns[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) columns[v] = held(load(panel_row + v * lanes));
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
      const float f = factor(r);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) values[r][v] += f * columns[v];
    }
  }
  template <class F>
  void load_from(const F& row) {
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) values[r][v] = load(row(r) + v * lanes);
  }
  template <class F>
  void store_to(const F& row) const {
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) store(row(r) + v * lanes, values[r][v]);
  }
};

/// Calls `f` with `rows`, at most max_rows, as an integral constant.
template <int max = max_rows, class F>
inline void with_rows(std::int64_t rows, F&& f) {
  if (rows == max)
    f(std::integral_constant<int, max>{});
  else if constexpr (max > 1)
    with_rows<max - 1>(rows, f);
}

/// c[r, 0..16) (+)= Σ_k a[r · a_row + k · a_depth] · panel[k, 0..16) for r < rows; rows of c are `c_row` apart.
inline void multiply(std::int64_t rows, std::int64_t depth, const float* a, std::int64_t a_row, std::int64_t a_depth,
                     const float* panel, float* c, std::int64_t c_row, bool add) {
  with_rows(rows, [=]<int count>(std::integral_constant<int, count>) {
    const auto out = [=](int r) { return c + r * c_row; };
    Sums<count> sums;
    if (add) sums.load_from(out);
    for (std::int64_t k = 0; k < depth; ++k)
      sums.add(panel + k * width, [in = a + k * a_depth, a_row](int r) { return in[r * a_row]; });
    sums.store_to(out);
  });
}

/// out[r][0..16) (+)= start[0..16) + Σ_t Σ_k in[t · max_rows + r][k] · panel[t, k, 0..16) for t < runs: each row is
/// given by `runs` pointers. `start` may be null.
inline void multiply_runs(std::int64_t rows, std::int64_t runs, std::int64_t depth, const float* const* in,
                          std::int64_t offset, const float* panel, float* const* out, std::int64_t column,
                          const float* start, bool add) {
  with_rows(rows, [=]<int count>(std::integral_constant<int, count>) {
    const auto to = [=](int r) { return out[r] + column; };
    Sums<count> sums;
    if (add)
      sums.load_from(to);
    else if (start != nullptr)
      sums.load_from([=](int) { return start; });
    const float* next = panel;
    for (std::int64_t t = 0; t < runs; ++t) {
      const float* from[count];
#pragma GCC unroll 12
      for (int r = 0; r < count; ++r) from[r] = in[t * max_rows + r] + offset;
      for (std::int64_t k = 0; k < depth; ++k, next += width) sums.add(next, [&](int r) { return from[r][k]; });
    }
    sums.store_to(to);
  });
}

}  // namespace lacuna::panel
