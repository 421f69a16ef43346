// The inner product of our own convolution kernels: a few rows times a panel of sixteen columns, all in registers.
#pragma once

#include "ops/tile.h"

#include <cstdint>

namespace lacuna::panel {

using tile::load;
using tile::store;
using Vector = tile::Vector<float>;

inline constexpr int lanes = tile::lanes<float>;
inline constexpr int width = 16;  // columns of a panel: few enough for every usual number of channels to be a multiple
inline constexpr int vectors = width / lanes;
inline constexpr int max_rows = 12 / vectors;  // 12 accumulators leave room for the panel and a broadcast

/// c[r, 0..16) (+)= Σ_k a[r · a_row + k · a_depth] · panel[k, 0..16) for r below `rows`; c's rows lie `c_row` apart.
template <int rows>
inline void multiply_rows(std::int64_t depth, const float* a, std::int64_t a_row, std::int64_t a_depth,
                          const float* panel, float* c, std::int64_t c_row, bool add) {
  Vector sums[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) sums[r][v] = add ? load(c + r * c_row + v * lanes) : Vector{};
  for (std::int64_t k = 0; k < depth; ++k, a += a_depth, panel += width) {
    Vector columns[vectors];
    for (int v = 0; v < vectors; ++v) columns[v] = load(panel + v * lanes);
#pragma GCC unroll 12
    for (int r = 0; r < rows; ++r) {
      const float factor = a[r * a_row];
      for (int v = 0; v < vectors; ++v) sums[r][v] += factor * columns[v];
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) store(c + r * c_row + v * lanes, sums[r][v]);
}

/// The same for any number of rows up to `max_rows`.
template <int most = max_rows>
inline void multiply(std::int64_t rows, std::int64_t depth, const float* a, std::int64_t a_row, std::int64_t a_depth,
                     const float* panel, float* c, std::int64_t c_row, bool add) {
  if (rows == most)
    multiply_rows<most>(depth, a, a_row, a_depth, panel, c, c_row, add);
  else if constexpr (most > 1)
    multiply<most - 1>(rows, depth, a, a_row, a_depth, panel, c, c_row, add);
}

}  // namespace lacuna::panel
