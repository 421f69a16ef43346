// Launchers of ops/products/scaled_linear.cu. All in f32.
#pragma once

#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// to[i, j] = factors[i] · from[i, j]. from, to: [rows, width]; to may be from.
struct ScaleRows {
  const float *from, *factors;
  float* to;
  std::int64_t rows, width;
};
void scale_rows(Stream stream, const ScaleRows& what);

/// to[i] = Σⱼ weight[i, j] · weight_sums[i, j] + bias[i] · bias_sums[i].
struct ScaleGradient {
  const float *weight, *weight_sums;  // [rows, width]
  const float *bias, *bias_sums;      // [rows], or null
  float* to;                          // [rows]
  std::int64_t rows, width;
};
void scale_gradient(Stream stream, const ScaleGradient& what);

}  // namespace lacuna::cuda
