// Launchers of optim/ema.cu, beside those of ops/cuda/map.h.
#pragma once

#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Exchanges the contents of a and b, which do not overlap.
struct SwapContents {
  void *a, *b;
  std::int64_t bytes;
};
void swap_contents(Stream stream, const SwapContents& what);

}  // namespace lacuna::cuda
