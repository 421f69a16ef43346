// Launcher of ops/curves/dropout.cu.
#pragma once

#include "core/number.h"
#include "core/random.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// y = x · scale, or 0 where the draw is below `dropped_below`, plus the residual if there is one (dropout_kernels.h).
/// x, residual, y: elements [first, first + count) of a tensor; y may be x.
struct Drop {
  const void* x;
  const void* residual;  // or null
  void* y;
  std::int64_t count, first;
  std::int64_t sample_size;               // elements of a sample; of a row if there are offsets
  const std::int64_t* offsets = nullptr;  // [samples + 1]: the first row of each sample; null: samples are of one size
  std::int64_t samples = 0;               // with offsets
  std::uint32_t dropped_below;
  float scale;
  bool whole_samples;  // draw 0 of a sample drops all of it; otherwise draw e its element e
};
void drop(Stream stream, DType type, const RandomStream& random, const Drop& what);

}  // namespace lacuna::cuda
