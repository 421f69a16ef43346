// Launchers of ops/norms/rms_norm.cu. Rows of `columns` elements of `type`; rstd and weight in f32.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/saved_values.h"

#include <cstdint>

namespace lacuna::cuda {

struct RmsNormForward {
  const void* x;        // [rows, columns]
  const float* weight;  // [columns]
  float* rstd;          // [rows]
  void* y;              // [rows, columns]
  std::int64_t rows, columns;
  float eps, offset;
  bool has_statistics;  // `rstd` is that of an earlier call
};
void rms_norm_forward(Stream stream, DType type, const RmsNormForward& what);

/// y from codes of x and the statistics of an earlier call. `what.x` is not read.
void rms_norm_of_codes(Stream stream, DType type, const RmsNormForward& what, const CodedRange& x);

/// Rows [first_row, first_row + rows) of a tensor. Block b has rows b, b + blocks, … of the tensor, and adds them to
/// its partial sums: calls for one part of the rows after the other give the bits of one call for all.
struct RmsNormBackward {
  SavedValues x;        // [rows, columns]
  const void* dy;       // [rows, columns]
  const float* rstd;    // [rows]
  const float* weight;  // [columns]; null if dx is
  void* dx;             // [rows, columns]; null if it is not wanted; may be dy
  float* partial;       // [blocks, columns]: sums of dy · x̂; begins as zeros; null if they are not wanted
  std::int64_t first_row, rows, columns, blocks;
  float offset;
  bool add;  // dx is added to
};
void rms_norm_backward(Stream stream, DType type, const RmsNormBackward& what);

}  // namespace lacuna::cuda
