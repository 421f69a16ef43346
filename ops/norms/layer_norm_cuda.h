// Launchers of ops/norms/layer_norm.cu. Rows of `columns` elements of `type`; statistics and parameters in f32.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/saved_values.h"

#include <cstdint>

namespace lacuna::cuda {

struct LayerNormForward {
  const void* x;               // [rows, columns]
  const float *weight, *bias;  // [columns]; bias null: none
  float *mean, *rstd;          // [rows]
  void* y;                     // [rows, columns]
  std::int64_t rows, columns;
  float eps;
  bool has_statistics = false;  // `mean` and `rstd` are those of an earlier call
};
void layer_norm_forward(Stream stream, DType type, const LayerNormForward& what);

/// y from codes of x and the statistics of an earlier call. `what.x` is not read.
void layer_norm_of_codes(Stream stream, DType type, const LayerNormForward& what, const CodedRange& x);

/// Rows [first_row, first_row + rows) of a tensor. Block b has rows b, b + blocks, … of the tensor, and adds them to
/// its partial sums: calls for one part of the rows after the other give the bits of one call for all.
struct LayerNormBackward {
  SavedValues x;             // [rows, columns]
  const void* dy;            // [rows, columns]
  const float *mean, *rstd;  // [rows]
  const float* weight;       // [columns]; null if dx is
  void* dx;                  // [rows, columns]; null if it is not wanted; may be dy
  float* partial;            // [blocks, 2, columns]: sums of dy · x̂ and of dy; begins as zeros
  std::int64_t first_row, rows, columns, blocks;
  bool add;  // dx is added to
};
void layer_norm_backward(Stream stream, DType type, const LayerNormBackward& what);

}  // namespace lacuna::cuda
