// Launcher of optim/muon.cu.
#pragma once

#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// square = identity · I + linear · gram + quadratic · square.
struct NewtonSchulzFactor {
  const float* gram;  // [n, n]
  float* square;      // [n, n]
  std::int64_t n;
  float identity, linear, quadratic;
};
void newton_schulz_factor(Stream stream, const NewtonSchulzFactor& what);

}  // namespace lacuna::cuda
