#include "ops/products/gemm.h"

#include <algorithm>

namespace lacuna {
namespace {

void check(const Matrix& a, const Matrix& b, const Matrix& c, const Tensor& bias) {
  expect(a.height() == c.rows && a.width() == b.height() && b.width() == c.columns && !c.transposed,
         "gemm: [{}, {}] by [{}, {}] does not give [{}, {}]", a.height(), a.width(), b.height(), b.width(), c.rows,
         c.columns);
  const auto wide = [](const Matrix& m) { return m.tensor.dtype() == DType::f64; };
  expect(wide(a) == wide(b) && wide(b) == wide(c), "gemm: f64 goes with f64 alone, got {} by {} into {}",
         name_of(a.tensor.dtype()), name_of(b.tensor.dtype()), name_of(c.tensor.dtype()));
  expect(a.width() > 0, "gemm: nothing to sum over in [{}, {}] by [{}, {}]", a.height(), a.width(), b.height(),
         b.width());
  expect(!bias.defined() || bias.count() == c.columns, "gemm: expected a bias of {} elements, got {}", c.columns,
         bias.defined() ? bias.count() : 0);
}

}  // namespace

Matrix Matrix::t() const {
  Matrix m = *this;
  m.transposed = !transposed;
  return m;
}

Matrix Matrix::row_range(std::int64_t begin, std::int64_t end) const {
  Matrix m = *this;
  m.first += begin * stride;
  m.rows = end - begin;
  return m;
}

Matrix Matrix::column_range(std::int64_t begin, std::int64_t end) const {
  Matrix m = *this;
  m.first += begin;
  m.columns = end - begin;
  return m;
}

Matrix Matrix::item(std::int64_t index, std::int64_t count) const {
  const std::int64_t own = rows / count;
  return row_range(index * own, (index + 1) * own);
}

void gemm(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  check(a, b, c, options.bias);
  if (c.rows > 0 && c.columns > 0) gemm_kernel(c.tensor.device(), a, b, c, options);
}

void gemm_batched(std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const std::int64_t count = std::max<std::int64_t>(batch, 1);
  check(a.item(0, count), b.item(0, count), c.item(0, count), options.bias);
  if (c.rows > 0 && c.columns > 0) gemm_batched_kernel(c.tensor.device(), batch, a, b, c, options);
}

}  // namespace lacuna
