#include "ops/curves/softmax.h"

#include "core/math.h"
#include "ops/curves/softmax_kernels.h"
#include "ops/kernels/rowwise.h"
#include "ops/operand.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<Softmax> softmax;
const RegisterOp<LogSoftmax> log_softmax;

/// Calls `row_kernel(n, in, out, scratch)` for each row, `in` and `scratch` [n] in the compute type, `out` [n].
template <class RowKernel>
void forward_by_rows(const Tensor& in, const Tensor& out, const RowKernel& row_kernel) {
  with_float_type(out.dtype(), [&]<class T>(Type<T>) {
    const std::int64_t n = out.shape().back();
    parallel_for(out.rows(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<Compute<T>> in_scratch = row_scratch<T>(n), scratch(static_cast<std::size_t>(n));
      for (std::int64_t row = begin; row < end; ++row)
        row_kernel(n, in_compute_type(in.data<T>() + row * n, n, in_scratch.data()), out.data<T>() + row * n,
                   scratch.data());
    });
  });
}

/// Calls `row_kernel(n, dy, y, dx)` for each row, `dy` and `y` [n] in the compute type, `dx` [n].
template <class RowKernel>
void backward_by_rows(const Tensor& y, const Tensor& dy, const Tensor& dx, const RowKernel& row_kernel) {
  with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
    const std::int64_t n = dy.shape().back();
    parallel_for(dy.rows(), serial_rows(n), [&](std::int64_t begin, std::int64_t end) {
      std::vector<Compute<T>> dy_scratch = row_scratch<T>(n), y_scratch = row_scratch<T>(n);
      for (std::int64_t row = begin; row < end; ++row)
        row_kernel(n, in_compute_type(dy.data<T>() + row * n, n, dy_scratch.data()),
                   in_compute_type(y.data<T>() + row * n, n, y_scratch.data()), dx.data<T>() + row * n);
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

void softmax_on_cpu(const Tensor& in, const Tensor& out) {
  forward_by_rows(in, out, []<class C, class T>(std::int64_t n, const C* x, T* y, C* exponentials) {
    const C scale = C(1) / exponentiate(n, x, max_of(n, x), exponentials);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(exponentials[i] * scale);
  });
}

void log_softmax_on_cpu(const Tensor& in, const Tensor& out) {
  forward_by_rows(in, out, []<class C, class T>(std::int64_t n, const C* x, T* y, C* exponentials) {
    const C largest = max_of(n, x);
    const C log_sum = std::log(exponentiate(n, x, largest, exponentials));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(x[i] - largest - log_sum);
  });
}

void softmax_backward_on_cpu(const Tensor& output, const Tensor& gradient, const Tensor& to) {
  backward_by_rows(output, gradient, to, []<class C, class T>(std::int64_t n, const C* dy, const C* y, T* dx) {
    const C dot = sum_of(
        n, [](const auto& a, const auto& b) { return a * b; }, dy, y);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(y[i] * (dy[i] - dot));
  });
}

void log_softmax_backward_on_cpu(const Tensor& output, const Tensor& gradient, const Tensor& to) {
  backward_by_rows(output, gradient, to, []<class C, class T>(std::int64_t n, const C* dy, const C* y, T* dx) {
    const C sum = sum_of(
        n, [](const auto& v) { return v; }, dy);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) dx[i] = static_cast<T>(dy[i] - math::exp(y[i]) * sum);
  });
}

const RegisterKernel cpu_softmax{softmax_forward, DeviceKind::cpu, softmax_on_cpu};
const RegisterKernel cpu_log_softmax{log_softmax_forward, DeviceKind::cpu, log_softmax_on_cpu};
const RegisterKernel cpu_softmax_backward{softmax_backward, DeviceKind::cpu, softmax_backward_on_cpu};
const RegisterKernel cpu_log_softmax_backward{log_softmax_backward, DeviceKind::cpu, log_softmax_backward_on_cpu};

/// dx block by block of the saved output, in place of dy if nobody else sees its memory.
template <class Kernel>
Tensor gradient_of(const Kernel& kernel, const Tensor& dy, const Operand& output) {
  const Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  output.for_blocks(dy.rows(), [&](std::int64_t begin, std::int64_t end, const Tensor& y) {
    kernel(dx.device(), y, dy.row_range(begin, end), dx.row_range(begin, end));
  });
  return dx;
}

}  // namespace

Tensor Softmax::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  softmax_forward(y.device(), inputs[x], y);
  return y;
}
void Softmax::rematerialize(const RematInputs<Softmax>& from, const Tensor& out) const {
  softmax_forward(out.device(), from.get<input(x)>(), out);
}
void Softmax::backward(const Tensor& dy, const Saved<Softmax>& saved, Grads& grads) const {
  grads[x] = gradient_of(softmax_backward, dy, saved.get<output>());
}

Tensor LogSoftmax::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  log_softmax_forward(y.device(), inputs[x], y);
  return y;
}
void LogSoftmax::rematerialize(const RematInputs<LogSoftmax>& from, const Tensor& out) const {
  log_softmax_forward(out.device(), from.get<input(x)>(), out);
}
void LogSoftmax::backward(const Tensor& dy, const Saved<LogSoftmax>& saved, Grads& grads) const {
  grads[x] = gradient_of(log_softmax_backward, dy, saved.get<output>());
}

}  // namespace lacuna
