// Matrix products on a device: cuBLASLt (ops/cuda/libraries), or the host on the stand-in (ops/cuda/stand_in).
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda_libraries.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace lacuna::cuda {

/// A row-major matrix; matrices of a batch are `item` elements apart.
struct Factor {
  void* data;
  DType dtype;
  std::int64_t rows, columns, stride;  // as stored
  bool transposed;
  std::int64_t item;
};

/// c = alpha · a·b (+ c or addend) (+ bias in each row), sums in f32. a and b have one type, f32, bf16 or f16; c has it
/// too or is f32; bias [columns of c] and addend, which lies as c does, have c's type. row_sums f32 [rows of c] is set
/// to the sums of a's rows, without a bias.
struct Product {
  Factor a, b, c;
  std::int64_t batch = 1;
  float alpha = 1;
  bool add = false;
  const void* addend = nullptr;
  const void* bias = nullptr;
  float* row_sums = nullptr;
  bool tf32 = false;  // a and b are f32, and rounded to TF32
};

/// Which of `count` ways to do `what` is the fastest on this card: measured when it recurs (ops/cuda/libraries), 0
/// until then. `run` does it one way, as often as it is called; false: it cannot. Without `run` it is not measured now.
std::size_t choose(Stream stream, int device, const std::string& what, std::size_t count,
                   const std::function<bool(std::size_t)>& run);

/// Whether the library computes it. Without row sums it always does.
bool has_plan(int device, const Product& product);
/// workspace: [library_workspace] bytes of the device.
void multiply(Stream stream, int device, const Product& product, void* workspace);

}  // namespace lacuna::cuda
