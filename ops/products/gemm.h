// Matrix products.
#pragma once

#include "core/kernel.h"
#include "core/tensor.h"

#include <cstdint>

namespace lacuna {

/// A view of a tensor as a row-major matrix; rows are `stride` elements apart.
struct Matrix {
  Tensor tensor;
  std::int64_t rows = 0, columns = 0;  // as stored
  std::int64_t stride = 0;
  std::int64_t first = 0;  // elements of the tensor before the matrix
  bool transposed = false;

  Matrix() = default;
  /// The whole tensor as [rows(), C]: its leading axes merged.
  explicit Matrix(const Tensor& whole)
      : tensor(whole), rows(whole.rows()), columns(whole.shape().back()), stride(whole.shape().back()) {}

  /// The transpose, a view.
  Matrix t() const;
  /// Stored rows or columns [begin, end), a view.
  Matrix row_range(std::int64_t begin, std::int64_t end) const;
  Matrix column_range(std::int64_t begin, std::int64_t end) const;
  /// Matrix `index` of `count` that are stacked by rows, a view.
  Matrix item(std::int64_t index, std::int64_t count) const;

  /// Extents after transposition.
  std::int64_t height() const { return transposed ? columns : rows; }
  std::int64_t width() const { return transposed ? rows : columns; }
};

struct GemmOptions {
  double alpha = 1;
  bool add = false;    // accumulate into c instead of overwriting it
  Tensor bias = {};    // f32, or f64 for f64: [width of c], added to each row; or undefined
  Tensor addend = {};  // of c's shape and type; or undefined. Then c is a whole tensor, and `add` is false
};

/// c = alpha · a·b (+ c) (+ bias in each row) (+ addend); c is not transposed. A GPU rounds to c's type once, a CPU
/// also before it adds `addend`. Operands may differ in type, f32 and bf16: bf16 is converted block by block, sums are
/// in f32. f64 goes with f64 alone, summed in f64. b may be a weight in few bits: it is decoded to a's type, block by
/// block. Throws Error if extents or types do not agree.
void gemm(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options = {});

/// c_i = alpha · a_i·b_i (+ c_i) for i in [0, batch), without an addend. Each operand holds its matrices stacked by
/// rows: rows = batch · rows of one.
void gemm_batched(std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c,
                  const GemmOptions& options = {});

// Kernels of each device, for checked operands; c is not empty. They allocate their workspace.
inline constinit Kernel<void(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options)>
    gemm_kernel{"matrix product"};
inline constinit Kernel<void(std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c,
                             const GemmOptions& options)>
    gemm_batched_kernel{"batch of matrix products"};

}  // namespace lacuna
