#include "ops/matmul.h"

#include "ops/gemm.h"

#include <algorithm>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<MatMul> matmul;

/// All axes but the last two taken together.
std::int64_t batch_of(const Shape& shape) { return shape.count() / (shape[shape.rank() - 2] * shape.back()); }

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

std::int64_t MatMul::multiply_adds(std::span<const Shape> inputs, const Shape& y) const {
  return y.count() * inputs[a].back();
}

Tensor MatMul::forward(std::span<const Tensor> inputs) const {
  const Shape& left = inputs[a].shape();
  const Shape& right = inputs[b].shape();
  const int last = right.rank() - 1;
  expect(same_leading(left, right) && left.back() == right[transpose_b ? last : last - 1],
         "matmul: expected a [..., M, K] and b [..., {}] with the same leading axes, got {} and {}",
         transpose_b ? "N, K" : "K, N", left, right);
  const Shape shape = with_last_two(left, left[last - 1], right[transpose_b ? last - 1 : last]);
  Tensor y = Tensor::empty(shape, inputs[a].dtype(), inputs[a].device());
  const Matrix factor(inputs[b]);
  gemm_batched(batch_of(shape), Matrix(inputs[a]), transpose_b ? factor.t() : factor, Matrix(y), {.alpha = scale});
  return y;
}

void MatMul::backward(Tensor dy, const Saved<MatMul>& saved, Grads& grads) const {
  const std::int64_t batch = batch_of(dy.shape());
  const Matrix d(dy);
  const auto write = [&](Input to, const Shape& shape, const Matrix& left, const Matrix& right) {
    const bool add = grads[to].defined();
    if (!add) grads[to] = Tensor::empty(shape, dy.dtype(), dy.device());
    gemm_batched(batch, left, right, Matrix(grads[to]), {.alpha = scale, .add = add});
  };
  const int last = dy.shape().rank() - 1;
  if (grads.wanted(a)) {  // dy·bᵀ
    const Tensor right = saved.get<input(b)>();
    const Matrix factor(right);
    const std::int64_t summands = right.shape()[transpose_b ? last : last - 1];
    write(a, dy.shape().with_back(summands), d, transpose_b ? factor : factor.t());
  }
  if (grads.wanted(b)) {  // aᵀ·dy, or its transpose
    const Tensor left = saved.get<input(a)>();
    const std::int64_t summands = left.shape().back(), columns = dy.shape().back();
    if (transpose_b)
      write(b, with_last_two(dy.shape(), columns, summands), d.t(), Matrix(left));
    else
      write(b, with_last_two(dy.shape(), summands, columns), Matrix(left).t(), d);
  }
}

}  // namespace lacuna
