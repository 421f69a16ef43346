// f32 matrix products by oneDNN, on pointers to host memory.
#pragma once

#include <cstdint>

namespace lacuna::onednn {

/// A row-major matrix, read as its transpose if `transposed`.
struct Operand {
  const float* data;  // [rows, stride]
  std::int64_t stride;
  bool transposed;
};

/// c [m, n] = alpha · a [m, k] · b [k, n] + beta · c. Runs on all threads; inside a parallel region on the calling
/// thread alone. Throws OutOfMemory if oneDNN has no memory.
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Operand& a, const Operand& b, float beta,
           float* c, std::int64_t c_stride);

}  // namespace lacuna::onednn
