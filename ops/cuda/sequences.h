// Offsets of sequences, for kernels.
#pragma once

#include <cstdint>

namespace lacuna::cuda {

/// Sequence i has the rows [offsets[i], offsets[i + 1]), of which the first lengths[i] are tokens
/// (ops/shapes/sequences.h).
struct SequenceRows {
  const std::int64_t *offsets, *lengths;  // [count + 1], [count]
  std::int64_t count;
};

}  // namespace lacuna::cuda
