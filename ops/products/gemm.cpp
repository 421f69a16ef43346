#include "ops/products/gemm.h"

#include "core/coded/codec.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/row_blocks.h"

#include <algorithm>

namespace lacuna {
namespace {

void check(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const auto& [alpha, add, bias, addend] = options;
  expect(a.height() == c.rows && a.width() == b.height() && b.width() == c.columns && !c.transposed,
         "gemm: [{}, {}] by [{}, {}] does not give [{}, {}]", a.height(), a.width(), b.height(), b.width(), c.rows,
         c.columns);
  const auto wide = [](const Matrix& m) { return m.tensor.dtype() == DType::f64; };
  expect(!a.tensor.is_coded() && !c.tensor.is_coded(), "gemm: only the right factor may be a weight in few bits");
  expect(wide(a) == (b.tensor.is_coded() ? wide(a) : wide(b)) && wide(a) == wide(c),
         "gemm: f64 goes with f64 alone, got {} by {} into {}", name_of(a.tensor.dtype()), name_of(b.tensor.dtype()),
         name_of(c.tensor.dtype()));
  expect(a.width() > 0, "gemm: nothing to sum over in [{}, {}] by [{}, {}]", a.height(), a.width(), b.height(),
         b.width());
  expect(!bias.defined() || bias.count() == c.columns, "gemm: expected a bias of {} elements, got {}", c.columns,
         bias.defined() ? bias.count() : 0);
  expect(!addend.defined() || (!add && addend.dtype() == c.tensor.dtype() && addend.count() == c.tensor.count() &&
                               c.rows * c.columns == c.tensor.count()),
         "gemm: expected an addend of all elements of the result, which nothing else is added to");
}

/// A product with a weight in few bits. Columns of c are computed block by block, each from a decoded block of the
/// weight that stays in cache, so sums have one order for any size of blocks.
void gemm_coded(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const Tensor& weight = b.tensor;
  const Device device = c.tensor.device();
  const DType type = a.tensor.dtype();
  const std::int64_t width = weight.shape().back(), first_row = b.first / width, first_column = b.first % width;
  expect(b.stride == width, "gemm: a weight {} in few bits was given with rows {} elements apart", weight.shape(),
         b.stride);
  constexpr std::int64_t columns_at_once = 64;  // a multiple of the panels of all kernels
  const std::int64_t fitting =
                         decoded_at_once(device) / (size_of(type) * b.height()) / columns_at_once * columns_at_once,
                     step = std::min(c.columns, std::max(columns_at_once, fitting));
  const Tensor memory = Tensor::empty({step * b.height()}, type, device, Purpose::workspace);
  for (std::int64_t begin = 0; begin < c.columns; begin += step) {
    const std::int64_t end = std::min(c.columns, begin + step), count = end - begin;
    const CodedPart part = b.transposed ? CodedPart{first_row + begin, count, first_column, b.columns}
                                        : CodedPart{first_row, b.rows, first_column + begin, count};
    Matrix block(memory.leading(0, part.rows * part.columns).reshape({part.rows, part.columns}));
    block.transposed = b.transposed;
    decode(weight, part, block.tensor);
    GemmOptions own = options;
    if (options.bias.defined()) own.bias = options.bias.leading(begin, end);
    gemm_kernel(device, a, block, c.column_range(begin, end), own);
  }
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
  check(a, b, c, options);
  if (c.rows == 0 || c.columns == 0) return;
  if (b.tensor.is_coded() && b.tensor.format().code == WeightCode::bf16 && a.tensor.dtype() == DType::bf16) {
    Matrix plain = b;
    plain.tensor = b.tensor.as_bf16();
    gemm_kernel(c.tensor.device(), a, plain, c, options);
  } else if (b.tensor.is_coded()) {
    GemmOptions own = options;
    own.addend = {};
    gemm_coded(a, b, c, own);
    if (options.addend.defined()) add_elements(c.tensor.device(), c.tensor, options.addend, c.tensor);
  } else {
    gemm_kernel(c.tensor.device(), a, b, c, options);
  }
}

void gemm_batched(std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const std::int64_t count = std::max<std::int64_t>(batch, 1);
  expect(!b.tensor.is_coded(), "gemm: weights in few bits are multiplied one at a time");
  expect(!options.addend.defined(), "gemm: products of a batch take no addend");
  check(a.item(0, count), b.item(0, count), c.item(0, count), options);
  if (c.rows > 0 && c.columns > 0) gemm_batched_kernel(c.tensor.device(), batch, a, b, c, options);
}

}  // namespace lacuna
