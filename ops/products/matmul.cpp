#include "ops/products/matmul.h"

#include "core/planned_device.h"
#include "ops/operand.h"
#include "ops/products/gemm.h"
#include "ops/row_blocks.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<MatMul> matmul;

/// All axes but the last two taken together.
std::int64_t batch_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end() - 2, std::int64_t{1}, std::multiplies{});
}

Shape with_last_two(const Shape& shape, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  extents[extents.size() - 2] = rows;
  extents.back() = columns;
  return Shape(std::span<const std::int64_t>(extents));
}

bool same_leading(const Shape& a, const Shape& b) {
  return a.rank() >= 2 && a.rank() == b.rank() && std::equal(a.begin(), a.end() - 2, b.begin());
}

}  // namespace

std::int64_t MatMul::macs(std::span<const Shape> inputs, const Shape& y) const { return y.count() * inputs[a].back(); }

Tensor MatMul::forward(std::span<const Tensor> inputs) const {
  const Shape& left = inputs[a].shape();
  const Shape& right = inputs[b].shape();
  const int last = right.rank() - 1;
  expect(same_leading(left, right) && left.back() == right[transpose_b ? last : last - 1],
         "matmul: expected a [..., M, K] and b [..., {}] with the same leading axes, got {} and {}",
         transpose_b ? "N, K" : "K, N", left, right);
  const Shape shape = with_last_two(left, left[last - 1], right[transpose_b ? last - 1 : last]);
  // Sums of nothing are zeros.
  if (shape.count() == 0 || left.back() == 0) return Tensor::zeros(shape, inputs[a].dtype(), inputs[a].device());
  Tensor y = Tensor::empty(shape, inputs[a].dtype(), inputs[a].device());
  const Matrix factor(inputs[b]);
  gemm_batched(batch_of(shape), Matrix(inputs[a]), transpose_b ? factor.t() : factor, Matrix(y), {.alpha = scale});
  return y;
}

void MatMul::backward(Tensor dy, const Saved<MatMul>& saved, Grads& grads) const {
  const int last = dy.shape().rank() - 1;
  // The gradient of one factor: `product` writes it for matrices [begin, end). How many at a time follows from the
  // shape of the other factor alone: what is decoded for them stays small, and the bits are the same however it is
  // held.
  const auto write = [&](Input to, const Shape& shape, const Shape& other, const auto& product) {
    if (dy.count() == 0 || shape.count() == 0) {
      if (!grads[to].defined()) grads[to] = Tensor::zeros(shape, dy.dtype(), dy.device());
      return;
    }
    const std::int64_t elements_at_once =
        computes_on_cuda(dy.device()) ? cached_at_once(dy.device()) / size_of(dy.dtype()) : std::int64_t{1} << 20;
    const std::int64_t batch = batch_of(dy.shape()), matrix = std::max<std::int64_t>(1, other.count() / batch);
    const std::int64_t step = std::clamp<std::int64_t>(elements_at_once / matrix, 1, batch);
    const bool add = grads[to].defined();
    if (!add) grads[to] = Tensor::empty(shape, dy.dtype(), dy.device());
    for (std::int64_t begin = 0; begin < batch; begin += step) {
      const std::int64_t end = std::min(batch, begin + step);
      const auto part_of = [&](const Tensor& all) {
        const std::int64_t rows = all.shape()[last - 1];
        return Matrix(all.row_range(begin * rows, end * rows));
      };
      product(begin, end, part_of(dy), part_of(grads[to]), GemmOptions{.alpha = scale, .add = add});
    }
  };
  if (grads.wanted(a)) {  // dy·bᵀ
    const Operand factor = saved.get<input(b)>();
    const Shape& shape = factor.shape();
    const std::int64_t rows = shape[last - 1], summands = shape[transpose_b ? last : last - 1];
    write(a, dy.shape().with_back(summands), shape,
          [&](std::int64_t begin, std::int64_t end, const Matrix& d, const Matrix& to, const GemmOptions& options) {
            const Tensor right = factor.rows(begin * rows, end * rows);
            gemm_batched(end - begin, d, transpose_b ? Matrix(right) : Matrix(right).t(), to, options);
          });
  }
  if (grads.wanted(b)) {  // aᵀ·dy, or its transpose
    const Operand factor = saved.get<input(a)>();
    const Shape& shape = factor.shape();
    const std::int64_t rows = shape[last - 1], summands = shape.back(), columns = dy.shape().back();
    write(b, transpose_b ? with_last_two(dy.shape(), columns, summands) : with_last_two(dy.shape(), summands, columns),
          shape,
          [&](std::int64_t begin, std::int64_t end, const Matrix& d, const Matrix& to, const GemmOptions& options) {
            const Tensor left = factor.rows(begin * rows, end * rows);
            if (transpose_b)
              gemm_batched(end - begin, d.t(), Matrix(left), to, options);
            else
              gemm_batched(end - begin, Matrix(left).t(), d, to, options);
          });
  }
}

}  // namespace lacuna
