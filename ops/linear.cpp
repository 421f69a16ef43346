#include "ops/linear.h"

#include "core/parallel.h"
#include "ops/kernels/gemm.h"
#include "ops/operand.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<Linear> linear;

/// In how many runs the weight gradient is summed over the rows: a rule of the shape alone, so that the sum has the
/// same bits however x is held. About so many rows keep a decoded run in cache and hide the cost of adding to the
/// gradient.
std::int64_t run_count(std::int64_t rows) {
  constexpr std::int64_t run = 1024;
  return std::max<std::int64_t>(1, (rows + run / 2) / run);
}

/// sums[j] (+)= Σ_i rows[i][j] for rows [rows, width] of dy; in `partial`, [threads, width], stands each thread's
/// share.
template <class T>
void column_sums(const T* rows, std::int64_t count, std::int64_t width, Compute<T>* partial, Compute<T>* sums,
                 bool add) {
  using C = Compute<T>;
  const std::int64_t parts = threads();
  parallel_tasks(parts, [&](std::int64_t index, std::int64_t) {
    const Range range = part(count, index, parts);
    C* const sum = partial + index * width;
    std::fill_n(sum, width, C(0));
    std::int64_t i = range.begin;
    for (; i + 4 <= range.end; i += 4) {
      const T* const row = rows + i * width;
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j)
        sum[j] += (to_compute(row[j]) + to_compute(row[width + j])) +
                  (to_compute(row[2 * width + j]) + to_compute(row[3 * width + j]));
    }
    for (; i < range.end; ++i) {
#pragma omp simd
      for (std::int64_t j = 0; j < width; ++j) sum[j] += to_compute(rows[i * width + j]);
    }
  });
  for (std::int64_t j = 0; j < width; ++j) {
    C sum = add ? sums[j] : C(0);
    for (std::int64_t p = 0; p < parts; ++p) sum += partial[p * width + j];
    sums[j] = sum;
  }
}

void add_bias_gradient(const Tensor& dy, const Tensor& partial, const Tensor& gradient, bool add) {
  launch(dy.device(), [&] {
    with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
      using C = Compute<T>;
      column_sums(dy.data<T>(), dy.rows(), dy.shape().back(), partial.data<C>(), gradient.data<C>(), add);
    });
  });
}

}  // namespace

std::int64_t Linear::macs(std::span<const Shape> inputs, const Shape& y) const {
  return y.count() * inputs[weight].back();
}

Tensor Linear::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  const Tensor& w = inputs[weight];
  expect(w.shape().rank() == 2 && in.shape().rank() > 0 && in.shape().back() == w.shape()[1],
         "linear: expected x [..., {}] for a weight {}, got {}", w.shape().back(), w.shape(), in.shape());
  expect(!inputs[bias].defined() || inputs[bias].count() == w.shape()[0],
         "linear: expected a bias of {} elements for a weight {}, got {}", w.shape()[0], w.shape(),
         inputs[bias].defined() ? inputs[bias].shape() : Shape());
  Tensor y = Tensor::empty(in.shape().with_back(w.shape()[0]), in.dtype(), in.device());
  gemm(Matrix(in), Matrix(w).t(), Matrix(y), {.bias = inputs[bias]});
  return y;
}

void Linear::backward(Tensor dy, const Saved<Linear>& saved, Grads& grads) const {
  const std::int64_t rows = dy.rows(), features = dy.shape().back();
  if (grads.wanted(weight) || grads.wanted(bias)) {
    bool add_weight = grads[weight].defined(), add_bias = grads[bias].defined();
    Tensor partial;  // [threads, features]
    if (grads.wanted(bias)) {
      partial = Tensor::empty({threads(), features}, compute_type(dy.dtype()), dy.device(), Purpose::workspace);
      if (!add_bias) grads[bias] = Tensor::empty({features}, compute_type(dy.dtype()), dy.device());
    }
    const std::int64_t runs = run_count(rows);
    const Operand in = grads.wanted(weight) ? saved.get<input(x)>() : Operand();
    for (std::int64_t run = 0; run < runs; ++run) {
      const Range range = part(rows, run, runs);
      const Tensor dy_run = dy.row_range(range.begin, range.end);
      if (grads.wanted(bias)) {
        add_bias_gradient(dy_run, partial, grads[bias], add_bias);
        add_bias = true;
      }
      if (grads.wanted(weight)) {
        const Tensor x_run = in.rows(range.begin, range.end);
        if (!add_weight)
          grads[weight] = Tensor::empty({features, x_run.shape().back()}, compute_type(dy.dtype()), dy.device());
        gemm(Matrix(dy_run).t(), Matrix(x_run), Matrix(grads[weight]), {.add = add_weight});
        add_weight = true;
      }
    }
  }
  if (grads.wanted(x)) {
    const Tensor w = saved.get<input(weight)>().whole();
    const bool add = grads[x].defined();
    if (!add) grads[x] = Tensor::empty(dy.shape().with_back(w.shape()[1]), dy.dtype(), dy.device());
    gemm(Matrix(dy), Matrix(w), Matrix(grads[x]), {.add = add});
  }
}

}  // namespace lacuna
