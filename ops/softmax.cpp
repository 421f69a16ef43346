#include "ops/softmax.h"

#include "core/math.h"
#include "ops/kernels/rowwise.h"
#include "ops/operand.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<Softmax> softmax;
const RegisterOp<LogSoftmax> log_softmax;

/// Calls `row_kernel(n, in, out, scratch)` for each row, `in` and `scratch` [n] in the compute type, `out` [n].
template <class Kernel>
void for_each_row(const Tensor& in, const Tensor& out, const Kernel& row_kernel) {
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      const std::int64_t n = out.shape().back();
      parallel_for(out.rows(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
        std::vector<Compute<T>> in_scratch = row_scratch<T>(n), scratch(static_cast<std::size_t>(n));
        for (std::int64_t row = begin; row < end; ++row)
          row_kernel(n, in_compute_type(in.data<T>() + row * n, n, in_scratch.data()), out.data<T>() + row * n,
                     scratch.data());
      });
    });
  });
}

/// exponentials[i] = e^(in[i] - largest); returns their sum.
template <class C>
C exponentiate(std::int64_t n, const C* in, C largest, C* exponentials) {
  C sum{};
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += exponentials[i] = math::exp(in[i] - largest);
  return sum;
}

void softmax_rows(const Tensor& in, const Tensor& out) {
  for_each_row(in, out, []<class C, class T>(std::int64_t n, const C* x, T* y, C* exponentials) {
    const C scale = C(1) / exponentiate(n, x, max_of(n, x), exponentials);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(exponentials[i] * scale);
  });
}

void log_softmax_rows(const Tensor& in, const Tensor& out) {
  for_each_row(in, out, []<class C, class T>(std::int64_t n, const C* x, T* y, C* exponentials) {
    const C largest = max_of(n, x);
    const C log_sum = std::log(exponentiate(n, x, largest, exponentials));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(x[i] - largest - log_sum);
  });
}

/// dx for each row from dy and the saved output y, run by run, written over dy where nobody else sees it.
template <class Op, class Kernel>
Tensor backward_by_rows(const Tensor& dy, const Saved<Op>& saved, const Kernel& row_kernel) {
  const Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  saved.template get<output>().for_blocks(dy.rows(), [&](std::int64_t first, std::int64_t last, const Tensor& y) {
    const Tensor in = dy.row_range(first, last), out = dx.row_range(first, last);
    launch(dy.device(), [&] {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
        const std::int64_t n = dy.shape().back();
        parallel_for(last - first, serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
          std::vector<Compute<T>> dy_scratch = row_scratch<T>(n), y_scratch = row_scratch<T>(n);
          for (std::int64_t row = begin; row < end; ++row)
            row_kernel(n, in_compute_type(in.data<T>() + row * n, n, dy_scratch.data()),
                       in_compute_type(y.data<T>() + row * n, n, y_scratch.data()), out.data<T>() + row * n);
        });
      });
    });
  });
  return dx;
}

}  // namespace

Tensor Softmax::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  softmax_rows(inputs[x], y);
  return y;
}
void Softmax::rematerialize(const RematInputs<Softmax>& from, const Tensor& out) const {
  softmax_rows(from.get<input(x)>(), out);
}
void Softmax::backward(const Tensor& dy, const Saved<Softmax>& saved, Grads& grads) const {
  grads[x] = backward_by_rows(dy, saved, []<class C, class T>(std::int64_t n, const C* g, const C* y, T* dx) {
    const C dot = sum_of(
        n, [](const auto& a, const auto& b) { return a * b; }, g, y);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(y[i] * (g[i] - dot));
  });
}

Tensor LogSoftmax::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  log_softmax_rows(inputs[x], y);
  return y;
}
void LogSoftmax::rematerialize(const RematInputs<LogSoftmax>& from, const Tensor& out) const {
  log_softmax_rows(from.get<input(x)>(), out);
}
void LogSoftmax::backward(const Tensor& dy, const Saved<LogSoftmax>& saved, Grads& grads) const {
  grads[x] = backward_by_rows(dy, saved, []<class C, class T>(std::int64_t n, const C* g, const C* y, T* dx) {
    const C sum = sum_of(
        n, [](const auto& v) { return v; }, g);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(g[i] - math::exp(y[i]) * sum);
  });
}

}  // namespace lacuna
