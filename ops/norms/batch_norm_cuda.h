// Launchers of ops/norms/batch_norm.cu. Images are rows of `channels` elements of `type`; tensors of channels are f32.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/saved_values.h"

#include <cstdint>

namespace lacuna::cuda {

/// Threads sum rows for themselves: part p has rows p, p + parts, … of the tensor. A rule of the shape, so that bits
/// are.
inline std::int64_t channel_sum_parts(std::int64_t rows, std::int64_t channels) {
  constexpr std::int64_t rows_of_part = 32, threads = 65536;
  const std::int64_t units = (channels + 7) / 8, most = units < threads ? threads / units : 1;
  const std::int64_t wanted = (rows + rows_of_part - 1) / rows_of_part;
  return wanted < most ? wanted : most;
}

/// mean and variance: [channels]. The sums are of x less its first row.
struct BatchNormStatistics {
  const void* x;   // [rows, channels]
  float* partial;  // [parts, 2, channels]; begins as zeros
  float *mean, *variance;
  std::int64_t rows, channels, parts;
};
void batch_norm_statistics(Stream stream, DType type, const BatchNormStatistics& what);

/// Mean and variance of all ranks' batches; all: [ranks, 2, channels].
struct BatchNormJoin {
  const float* all;
  float *mean, *variance;  // [channels]
  std::int64_t ranks, channels;
};
void batch_norm_join(Stream stream, const BatchNormJoin& what);

/// [channels] each; null: not read.
struct NormChannels {
  const float *weight, *bias, *mean, *variance;
  float eps;
};

/// y = rectify(normalized x + residual), as ops/norms/batch_norm_kernels.h says.
struct BatchNormApply {
  NormChannels of;
  CodedRange codes;          // of x, if that is null: from whole rows on
  const void *x, *residual;  // [rows, channels]; residual may be null
  void* y;                   // [rows, channels]
  std::int64_t rows, channels;
  bool relu;
  const std::uint8_t* signs;  // null: those of the sum
  std::int64_t first_sign;
};
void batch_norm_apply(Stream stream, DType type, const BatchNormApply& what);

/// Which elements of dy pass.
enum class NormGate : std::uint8_t {
  open,        // all
  normalized,  // where normalized x is positive
  bits,        // where a bit is set
  values,      // where a value is positive
};

/// Rows [first_row, first_row + rows) of a tensor.
struct BatchNormRows {
  NormChannels of;
  SavedValues x;  // [rows, channels]; not read unless `reads_x`
  bool reads_x;
  const void* dy;  // [rows, channels]
  NormGate gate;
  const void* signs;  // bits of the whole tensor, or values [rows, channels] of `type`
  std::int64_t first_row, rows, channels;
};

/// Adds the sums of g and of g · (x − mean), g being dy behind the gate. Calls for one part of the rows after the other
/// give the bits of one call for all.
struct BatchNormSums {
  BatchNormRows rows;
  float* partial;  // [parts, 2, channels]; begins as zeros
  std::int64_t parts;
};
void batch_norm_sums(Stream stream, DType type, const BatchNormSums& what);

/// The results computed from the sums. Null: not wanted.
struct BatchNormFinish {
  const float* partial;                    // [parts, 2, channels], or null:
  double* totals;                          // [2, channels]: written, or read if partial is null
  float *weight_gradient, *bias_gradient;  // [channels], added to
  float* slopes;                           // [2, channels]: of x − mean, and the constant, in dx
  const float *weight, *variance;          // [channels]
  std::int64_t channels, parts;
  double count;  // of the rows that mean and variance are of
  float eps;
};
void batch_norm_finish(Stream stream, const BatchNormFinish& what);

/// dx = g · weight · rstd + (x − mean) · slopes[0] + slopes[1], and the residual's gradient g.
struct BatchNormGradient {
  BatchNormRows rows;
  const float* slopes;  // [2, channels]; null: zeros
  void *dx, *residual;  // [rows, channels]; null if it is not wanted; may be dy
};
void batch_norm_gradient(Stream stream, DType type, const BatchNormGradient& what);

}  // namespace lacuna::cuda
