// Launchers of ops/curves/softmax.cu. Rows of `columns` elements of `type`.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// y = softmax(x), or its logarithm. x, y: [rows, columns]; y may be x.
struct SoftmaxForward {
  const void* x;
  void* y;
  std::int64_t rows, columns;
  bool log;
};
void softmax_forward(Stream stream, DType type, const SoftmaxForward& what);

/// dx from the output y. All: [rows, columns]; dx may be dy.
struct SoftmaxBackward {
  const void *y, *dy;
  void* dx;
  std::int64_t rows, columns;
  bool log;
};
void softmax_backward(Stream stream, DType type, const SoftmaxBackward& what);

}  // namespace lacuna::cuda
