// Launchers of ops/arithmetic/arithmetic.cu, beside those of ops/cuda/map.h.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// y = x + b, where row r of x meets row (first_row + r) mod b_rows of b.
struct AddRows {
  const void* x;   // [rows, width] of `type`
  const float* b;  // [b_rows, width]
  void* y;         // as x
  std::int64_t rows, width, b_rows, first_row;
};
void add_rows(Stream stream, DType type, const AddRows& what);

}  // namespace lacuna::cuda
