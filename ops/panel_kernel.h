// The inner product of our own convolution kernels: a few rows times a panel of sixteen columns, all in registers.
#pragma once

#include <cstdint>

namespace lacuna::panel {

#ifdef __AVX512F__
inline constexpr int lanes = 16, max_rows = 12;  // 12 accumulators, one vector of the panel
#else
inline constexpr int lanes = 8, max_rows = 6;  // 12 accumulators, two vectors of the panel, a broadcast
#endif
inline constexpr int width = 16;  // columns of a panel
inline constexpr int vectors = width / lanes;

using Vector = float __attribute__((vector_size(lanes * sizeof(float))));
using Unaligned = float __attribute__((vector_size(lanes * sizeof(float)), aligned(alignof(float)), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Unaligned*>(to) = value; }

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
