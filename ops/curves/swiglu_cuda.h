// Launchers of ops/curves/swiglu.cu. a and b are the halves of a row of x.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/saved_values.h"

#include <cstdint>

namespace lacuna::cuda {

/// y = silu(a) · b. x: [rows, 2, width], y: [rows, width] of `type`.
struct SwiGluForward {
  const void* x;
  void* y;
  std::int64_t rows, width;
};
void swiglu_forward(Stream stream, DType type, const SwiGluForward& what);

/// dx: [rows, 2, width]; dy: [rows, width].
struct SwiGluBackward {
  SavedValues x;
  const void* dy;
  void* dx;
  std::int64_t rows, width;
};
void swiglu_backward(Stream stream, DType type, const SwiGluBackward& what);

}  // namespace lacuna::cuda
