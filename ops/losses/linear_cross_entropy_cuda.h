// Launchers of ops/losses/linear_cross_entropy.cu, beside those of ops/losses/loss_cuda.h.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// to[0] = value / labels that count, where `value` is of one of two types.
struct PerCounted {
  const std::int64_t* labels;  // [count]
  std::int64_t count, ignored;
  const float* value;          // [1], or null:
  const double* value_in_f64;  // [1]
  float* to;                   // [1]
};
void divide_by_counted(Stream stream, const PerCounted& what);

/// y = *dy · factor · x. x, y: [count] of `type`.
void scale_by(Stream stream, DType type, const float* dy, float factor, std::int64_t count, const void* x, void* y);

}  // namespace lacuna::cuda
