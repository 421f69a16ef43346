// Launchers of ops/detection/box_losses.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

inline constexpr std::int64_t losses_together = 4096;  // elements of a block

struct FocalCall {
  const void* logits;          // [rows, classes]
  const std::int64_t* labels;  // [rows]
  const float* weights;        // [rows]
  std::int64_t rows, classes;
  float alpha, gamma;
};
/// partial[b] = the sum over elements [b, b + 1) · losses_together.
void sum_focal(Stream stream, DType type, const FocalCall& what, double* partial);
/// dlogits = *dy · slope.
void focal_gradient(Stream stream, DType type, const FocalCall& what, const float* dy, void* dlogits);

struct RowsCall {
  const std::int64_t* rows;  // [count]
  const float* weights;      // [count]
  void* differences;         // [count, width]
  std::int64_t count, width;
  float beta;
};
/// Sets differences = x[rows] - targets, and partial as sum_focal().
void sum_rows(Stream stream, DType type, const RowsCall& what, const void* x, const float* targets, double* partial);
/// dx[rows] = *dy · slope.
void rows_gradient(Stream stream, DType type, const RowsCall& what, const float* dy, void* dx);

}  // namespace lacuna::cuda
