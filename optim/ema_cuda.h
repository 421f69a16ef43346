// Launchers of optim/ema.cu.
#pragma once

#include "core/stream.h"
#include "optim/chunks.h"
#include "optim/formulas.h"

#include <cstdint>

namespace lacuna::cuda {

/// The entry of a tensor.
struct AveragedValues {
  const float* value;  // [count]
  float* average;      // [count]
  std::int64_t count, first_chunk;
};
/// average = formula(average, value), of each tensor.
void average(Stream stream, const formula::AverageStep& formula, const Table<AveragedValues>& tensors);

/// Exchanges the contents of a and b, which do not overlap.
struct SwapContents {
  void *a, *b;
  std::int64_t bytes;
};
void swap_contents(Stream stream, const SwapContents& what);

}  // namespace lacuna::cuda
