// Sums that several blocks of a kernel have made: added in order, so that they have the same bits every time.
#pragma once

#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// to[i] = Σ_b partial[b · stride + i], for i in [0, count); if `add`, to[i] + the sum.
struct BlockSums {
  const float* partial;  // [blocks, stride]
  float* to;             // [count]
  std::int64_t blocks, stride, count;
  bool add = false;
};
void add_block_sums(Stream stream, const BlockSums& what);

/// Blocks of a kernel that sums over rows of `columns` elements: a rule of the shape, so that bits are. More of them
/// where a block is small (with_row_threads).
inline std::int64_t summing_blocks(std::int64_t rows, std::int64_t columns) {
  const std::int64_t most = columns <= 256 ? 2112 : 528;
  return rows < most ? rows : most;
}

}  // namespace lacuna::cuda
