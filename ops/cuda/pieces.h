// Copies between a packed tensor and pieces of another one, as slices, concatenations and heads are.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Piece p of `length` elements lies at p · length in `packed`. With p + first_piece = (image · outer + o) · inner + i
/// it begins at first + image · image_stride + o · outer_stride + i · inner_stride in `scattered`.
struct Pieces {
  void* scattered;
  void* packed;
  std::int64_t count, length;  // pieces; elements of one
  std::int64_t first, image_stride, outer_stride = 0, inner_stride = 0;
  std::int64_t outer = 1, inner = 1;
  std::int64_t first_piece = 0;
};

/// Elements of `size` bytes.
void gather_pieces(Stream stream, std::int64_t size, const Pieces& what);
void scatter_pieces(Stream stream, std::int64_t size, const Pieces& what);
/// Adds `packed` to the pieces.
void add_pieces(Stream stream, DType type, const Pieces& what);

}  // namespace lacuna::cuda
