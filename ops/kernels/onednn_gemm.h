// Matrix products as oneDNN runs them: plain pointers into host memory.
#pragma once

#include <cstdint>

namespace lacuna::onednn {

/// A row-major matrix; `transposed` reads it as its transpose.
struct Operand {
  const float* data;  // [rows, stride]
  std::int64_t stride;
  bool transposed;
};

/// c = alpha · a·b + beta · c with c [m, n] and k summands in each element. Runs on all threads, or on the calling
/// thread alone inside a parallel region.
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Operand& a, const Operand& b, float beta,
           float* c, std::int64_t c_stride);

}  // namespace lacuna::onednn
