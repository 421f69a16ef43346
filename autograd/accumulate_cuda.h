// Launchers of autograd/accumulate.cu, beside those of ops/cuda/map.h.
#pragma once

#include "core/number.h"
#include "core/random.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// a - b.
struct Difference {
  template <class T>
  LACUNA_HOST_DEVICE T operator()(T a, T b) const {
    return a - b;
  }
};

/// sums[i] = Σ (a - b)² over elements [bounds[i], bounds[i + 1]).
struct SquaredDifferences {
  const void *a, *b;           // of `type`; b may be null: Σ a²
  const std::int64_t* bounds;  // [parts + 1]
  double* sums;                // [parts]
  std::int64_t parts;
};
void squared_differences(Stream stream, DType type, const SquaredDifferences& what);

/// out = a with random signs drawn from `random`. a, out: [count] of `type`.
struct DrawSigns {
  const void* a;
  void* out;
  std::int64_t count;
};
void draw_signs(Stream stream, DType type, const RandomStream& random, const DrawSigns& what);

}  // namespace lacuna::cuda
