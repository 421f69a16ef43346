#include "ops/products/dropout_linear.h"

#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/curves/dropout.h"
#include "ops/operand.h"
#include "ops/products/gemm.h"
#include "ops/row_blocks.h"

#include <algorithm>
#include <array>

namespace lacuna {
namespace {

const RegisterOp<DropoutLinear> dropout_linear;

/// Rows of x that are thinned at a time: they stay in cache. The number does not depend on how x is held, so that sums
/// have one order.
std::int64_t rows_at_once(std::int64_t rows, std::int64_t width, DType dtype, Device device) {
  constexpr std::int64_t of_cpu = 1024;
  const std::int64_t fitting = computes_on_cuda(device) ? cached_at_once(device) / (width * size_of(dtype)) : of_cpu;
  return std::min(rows, std::max(of_cpu, fitting));
}

/// `to` = dropout(`rows`), which are those from `first` on of a tensor of `shape`.
void thin(const DropoutLinear& op, const Shape& shape, std::int64_t first, const Tensor& rows, const Tensor& to) {
  const Dropout dropout{.p = op.p, .stream = op.stream, .sequences = op.sequences};
  const std::array inputs{rows, Tensor()};
  const Tensor no_signs;
  dropout.rematerialize(RematInputs<Dropout>(RematRows{inputs, shape, first, no_signs}), to);
}

/// Calls `f(begin, end)` for blocks of `count` rows, `block` each.
void for_row_blocks(std::int64_t count, std::int64_t block, const auto& f) {
  for (std::int64_t begin = 0; begin < count; begin += block) f(begin, std::min(count, begin + block));
}

}  // namespace

std::int64_t DropoutLinear::macs(std::span<const Shape> inputs, const Shape& y) const {
  return y.count() * inputs[weight].back();
}

Tensor DropoutLinear::forward(std::span<const Tensor> inputs) const {
  const Tensor &in = inputs[x], &w = inputs[weight];
  expect(p >= 0 && p < 1, "dropout_linear expects a probability in [0, 1), got {}", p);
  expect(w.shape().rank() == 2 && in.shape().rank() > 0 && in.shape().back() == w.shape()[1],
         "dropout_linear: expected x [..., {}] for a weight {}, got {}", w.shape().back(), w.shape(), in.shape());
  const Tensor y = Tensor::empty(in.shape().with_back(w.shape()[0]), in.dtype(), in.device());
  const std::int64_t rows = in.rows(), width = in.shape().back();
  const std::int64_t block = rows_at_once(rows, width, in.dtype(), in.device());
  const Tensor thinned = Tensor::empty({block, width}, in.dtype(), in.device(), Purpose::workspace);
  for_row_blocks(rows, block, [&](std::int64_t begin, std::int64_t end) {
    const Tensor part = thinned.row_range(0, end - begin);
    thin(*this, in.shape(), begin, in.row_range(begin, end), part);
    gemm(Matrix(part), Matrix(w).t(), Matrix(y.row_range(begin, end)));
  });
  return y;
}

void DropoutLinear::backward(Tensor dy, const Saved<DropoutLinear>& saved, Grads& grads) const {
  const std::int64_t rows = dy.rows();
  if (grads.wanted(weight)) {
    const Operand in = saved.get<input(x)>();
    const std::int64_t width = in.shape().back();
    const Shape shape{dy.shape().back(), width};
    const DType parameters = compute_type(dy.dtype());
    if (rows == 0)
      grads[weight] = Tensor::zeros(shape, parameters, dy.device());
    else
      grads[weight] = Tensor::empty(shape, parameters, dy.device());
    const std::int64_t block = rows_at_once(rows, width, dy.dtype(), dy.device());
    const Tensor thinned = Tensor::empty({block, width}, dy.dtype(), dy.device(), Purpose::workspace);
    for_row_blocks(rows, block, [&](std::int64_t begin, std::int64_t end) {
      const Tensor part = thinned.row_range(0, end - begin);
      thin(*this, in.shape(), begin, in.rows(begin, end), part);
      gemm(Matrix(dy.row_range(begin, end)).t(), Matrix(part), Matrix(grads[weight]), {.add = begin > 0});
    });
  }
  if (grads.wanted(x)) {
    const Tensor w = saved.get<input(weight)>().whole();
    const Shape shape = dy.shape().with_back(w.shape()[1]);
    grads[x] = Tensor::empty(shape, dy.dtype(), dy.device());
    gemm(Matrix(dy), Matrix(w), Matrix(grads[x]));
    thin(*this, shape, 0, grads[x], grads[x]);
  }
}

}  // namespace lacuna
