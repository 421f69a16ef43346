// Rows of up to 1,024 elements for kernels that reduce them, for .cu files: a warp has a row, so that no thread waits
// at a barrier, and loads the next one meanwhile. Rows of whole eights; BlockRow (row_kernels.h) takes any.
#pragma once

#include "ops/cuda/elements.h"

namespace lacuna::cuda {

template <int n>
struct Eights {};
inline constexpr std::int64_t longest_warp_row = 1024;
/// Calls `f(Eights<n>)` with how many eights of a row a lane has.
template <class F>
void with_warp_row(std::int64_t columns, const F& f) {
  if (columns <= 256) return f(Eights<1>{});
  if (columns <= 512) return f(Eights<2>{});
  if (columns <= 768) return f(Eights<3>{});
  f(Eights<4>{});
}
inline bool fits_warp_row(std::int64_t columns) { return columns % 8 == 0 && columns <= longest_warp_row; }

/// The part of the rows that one lane has.
template <class T, int eights>
struct WarpRows {
  static constexpr int threads = 128, warps = threads / warp_size;
  std::int64_t rows, columns;

  /// Blocks that keep a GPU busy: a rule of the shape.
  std::int64_t blocks() const {
    constexpr std::int64_t most = 1584;
    const std::int64_t all = divide_up(rows, warps);
    return all < most ? all : most;
  }
  LACUNA_DEVICE std::int64_t column(int lane, int k) const { return (k * warp_size + lane) * 8; }
  /// Reads a tensor [columns], such as a weight. Elements behind the end are 0.
  LACUNA_DEVICE void read(const Kept<float>& from, int lane, Eight (&to)[eights]) const {
#pragma unroll
    for (int k = 0; k < eights; ++k) to[k] = column(lane, k) < columns ? from.at(column(lane, k)) : Eight{};
  }
  /// Calls `f(row, values)` for the rows of the warp. Elements behind the end of a row are 0.
  template <class K, class F>
  LACUNA_DEVICE void each(const Block<K>& block, const Kept<T>& x, const F& f) const {
    const std::int64_t step = block.count() * warps;
    std::int64_t row = block.index() * warps + block.warp();
    RawEight<T> next[eights]{};
    const auto fetch = [&](std::int64_t from) {
#pragma unroll
      for (int k = 0; k < eights; ++k)
        if (from < rows && column(block.lane(), k) < columns)
          next[k] = x.raw_at_row(from, columns, column(block.lane(), k));
    };
    for (fetch(row); row < rows; row += step) {
      Eight values[eights];
#pragma unroll
      for (int k = 0; k < eights; ++k) values[k] = next[k].values();
      fetch(row + step);
      f(row, values);
    }
  }
  /// The sum of `term(value)` over a row.
  template <class Term>
  LACUNA_DEVICE float sum(const Eight (&values)[eights], int lane, const Term& term) const {
    float own = 0;
#pragma unroll
    for (int k = 0; k < eights; ++k) {
      if (column(lane, k) >= columns) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) own += term(values[k][i]);
    }
    return sum_of_lanes(own);
  }
};

}  // namespace lacuna::cuda
