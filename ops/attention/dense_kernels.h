// Launchers of ops/attention/dense.cu: what cuDNN's attention leaves to us.
#pragma once

#include "core/number.h"
#include "core/random.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// The mask of dropout, [samples, heads, queries, keys]: 0 where it drops, otherwise 1. Draw (head · draw_rows + query)
/// · draw_columns + key of sample first + i decides.
struct DropoutMask {
  RandomStream stream;
  std::int64_t samples, heads, queries, keys, first, draw_rows, draw_columns;
  std::uint32_t dropped_below;  // draws below it drop
};
void write_mask(Stream stream, DType type, const DropoutMask& what, void* mask);

/// Writes zeros to the padding of samples: their rows from `lengths` on, `padding` at most.
struct PaddingRows {
  void* data;                   // 16-bit elements; rows are `stride` apart
  std::int64_t width, stride;   // multiples of 8
  std::int64_t samples, rows;   // rows of a sample, without `offsets`
  const std::int32_t* lengths;  // [samples]
  const std::int32_t* offsets;  // [samples + 1], elements in front of a sample's where its stride is offset_stride
  std::int64_t offset_stride, padding;
};
void clear_padding(Stream stream, const PaddingRows& what);

}  // namespace lacuna::cuda
