// Matrix products on a device: cuBLASLt (ops/cuda/libraries), or the host on the stand-in (ops/cuda/stand_in).
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda_libraries.h"

#include <compare>
#include <cstddef>
#include <cstdint>

namespace lacuna::cuda {

/// A row-major matrix; matrices of a batch are `item` elements apart.
struct Factor {
  void* data;
  DType dtype;
  std::int64_t rows, columns, stride;  // as stored
  bool transposed;
  std::int64_t item;
};

/// c = alpha · a·b (+ c) (+ bias in each row), sums in f32. a and b have one type, f32, bf16 or f16; c has it too or is
/// f32; bias [columns of c] has c's type.
struct Product {
  Factor a, b, c;
  std::int64_t batch = 1;
  float alpha = 1;
  bool add = false;
  const void* bias = nullptr;
  bool tf32 = false;  // a and b are f32, and rounded to TF32
};

/// workspace: [library_workspace] bytes of the device.
void multiply(Stream stream, int device, const Product& product, void* workspace);

}  // namespace lacuna::cuda
