// The one door to matrix products.
#pragma once

#include "core/tensor.h"

#include <cstdint>

namespace lacuna {

/// A matrix as it lies in a tensor: row-major, `stride` elements from one row to the next.
struct Matrix {
  Tensor tensor;
  std::int64_t rows = 0, columns = 0;  // as stored
  std::int64_t stride = 0;
  std::int64_t first = 0;  // elements of the tensor before the matrix
  bool transposed = false;

  Matrix() = default;
  /// All of a tensor, its leading axes taken together: [rows(), C].
  explicit Matrix(const Tensor& whole)
      : tensor(whole), rows(whole.rows()), columns(whole.shape().back()), stride(whole.shape().back()) {}

  /// The same memory read as its transpose.
  Matrix t() const;
  /// Stored rows or columns [begin, end), as a view.
  Matrix row_range(std::int64_t begin, std::int64_t end) const;
  Matrix column_range(std::int64_t begin, std::int64_t end) const;

  /// Extents as the product sees them.
  std::int64_t height() const { return transposed ? columns : rows; }
  std::int64_t width() const { return transposed ? rows : columns; }
};

struct GemmOptions {
  double alpha = 1;
  bool add = false;  // to what `c` holds, instead of overwriting it
  Tensor bias = {};  // f32, or f64 for f64: [width of c], added to each row; or undefined
};

/// c = alpha · a·b (+ c) (+ bias in each row); `c` is not transposed. Operands may differ in type: halves are converted
/// block by block, sums are in f32, or in f64 where all are f64. Fails where the extents do not agree.
void gemm(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options = {});

/// c_i = alpha · a_i·b_i (+ c_i) for each i in [0, batch), the matrices stacked one below the other in each operand:
/// `a`, `b`, `c` describe them all (rows = batch · rows of one).
void gemm_batched(std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c,
                  const GemmOptions& options = {});

}  // namespace lacuna
