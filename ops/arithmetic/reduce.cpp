#include "ops/arithmetic/reduce.h"

#include "ops/arithmetic/factor.h"
#include "ops/arithmetic/reduce_kernels.h"
#include "ops/kernels/rowwise.h"

namespace lacuna {
namespace {

const RegisterOp<Sum> sum_op;
const RegisterOp<Mean> mean_op;

/// Runs of fixed length are added in the compute type, and their sums in double and in order: the bits do not depend on
/// the number of threads.
template <class T>
void sum_elements_on_cpu(double factor, const Tensor& x, const Tensor& partial, const Tensor& y) {
  using C = Compute<T>;
  const T* const in = x.data<T>();
  double* const sums = partial.data<double>();
  parallel_for(partial.count(), 4, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> scratch = row_scratch<T>(sum_run);
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t count = std::min(sum_run, x.count() - k * sum_run);
      const C* const values = in_compute_type(in + k * sum_run, count, scratch.data());
      sums[k] = static_cast<double>(sum_of(
          count, [](const auto& v) { return v; }, values));
    }
  });
  double total = 0;
  for (std::int64_t k = 0; k < partial.count(); ++k) total += sums[k];
  *y.data<T>() = static_cast<T>(static_cast<C>(factor * total));
}

/// Likewise of rows: runs of them are added in the compute type.
template <class T>
void sum_repetitions_on_cpu(const Tensor& x, const Tensor& y) {
  using C = Compute<T>;
  const std::int64_t n = y.count(), repetitions = n == 0 ? 0 : x.count() / n;
  const T* const in = x.data<T>();  // [repetitions, n]
  C* const out = y.data<C>();
  parallel_for(
      n, x.count() < 65536 ? n + 1 : 0,
      [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t tile = 1024, run = 64;  // the sums of a tile stay in the L1 cache
        C sums[tile];
        double totals[tile];
        for (std::int64_t first = begin; first < end; first += tile) {
          const std::int64_t width = std::min(tile, end - first);
          for (std::int64_t i = 0; i < width; ++i) totals[i] = static_cast<double>(out[first + i]);
          for (std::int64_t row = 0; row < repetitions; row += run) {
            std::fill_n(sums, width, C{});
            for (std::int64_t k = row; k < std::min(repetitions, row + run); ++k) {
              const T* const values = in + k * n + first;
#pragma GCC ivdep
              for (std::int64_t i = 0; i < width; ++i) sums[i] += to_compute(values[i]);
            }
            for (std::int64_t i = 0; i < width; ++i) totals[i] += static_cast<double>(sums[i]);
          }
          for (std::int64_t i = 0; i < width; ++i) out[first + i] = static_cast<C>(totals[i]);
        }
      },
      16);
}

const RegisterKernel cpu_sum{
    sum_elements, DeviceKind::cpu, [](double factor, const Tensor& x, const Tensor& partial, const Tensor& y) {
      with_float_type(x.dtype(), [&]<class T>(Type<T>) { sum_elements_on_cpu<T>(factor, x, partial, y); });
    }};
const RegisterKernel cpu_spread{spread_gradient, DeviceKind::cpu,
                                [](double factor, const Tensor& dy, const Tensor& dx) { dx.fill(factor * dy.item()); }};
const RegisterKernel cpu_sum_repetitions{sum_repetitions, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) {
                                           with_float_type(x.dtype(),
                                                           [&]<class T>(Type<T>) { sum_repetitions_on_cpu<T>(x, y); });
                                         }};

const RegisterKernel cpu_add_to_sums{add_to_sums, DeviceKind::cpu,
                                     [](const Factor& factor, const Tensor& x, const Tensor& sums) {
                                       const double times = factor.item();
                                       with_float_type(x.dtype(), [&]<class T>(Type<T>) {
                                         const T* const in = x.data<const T>();
                                         double* const to = sums.data<double>();
                                         for (std::int64_t i = 0; i < sums.count(); ++i)
                                           to[i] += times * static_cast<double>(to_compute(in[i]));
                                       });
                                     }};

/// factor · Σ x as a scalar [] of x's type.
Tensor scaled_sum(const Tensor& x, double factor) {
  Tensor y = Tensor::empty({}, x.dtype(), x.device());
  const Tensor partial =
      Tensor::empty({(x.count() + sum_run - 1) / sum_run}, DType::f64, x.device(), Purpose::workspace);
  sum_elements(x.device(), factor, x, partial, y);
  return y;
}

/// factor · dy in every element of a tensor of `shape`.
Tensor spread(const Tensor& dy, double factor, const Shape& shape) {
  Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
  spread_gradient(dy.device(), factor, dy, dx);
  return dx;
}

/// The mean of no elements is 0 / 0.
double reciprocal(std::int64_t count) { return 1.0 / static_cast<double>(count); }

}  // namespace

Tensor Sum::forward(std::span<const Tensor> inputs) const {
  expect(inputs[x].shape() == shape, "sum was made for {}, got {}", shape, inputs[x].shape());
  return scaled_sum(inputs[x], 1);
}
void Sum::backward(const Tensor& dy, const Saved<Sum>&, Grads& grads) const { grads[x] = spread(dy, 1, shape); }

Tensor Mean::forward(std::span<const Tensor> inputs) const {
  expect(inputs[x].shape() == shape, "mean was made for {}, got {}", shape, inputs[x].shape());
  return scaled_sum(inputs[x], reciprocal(shape.count()));
}
void Mean::backward(const Tensor& dy, const Saved<Mean>&, Grads& grads) const {
  grads[x] = spread(dy, reciprocal(shape.count()), shape);
}

Tensor sum_over_leading(const Tensor& tensor, const Shape& shape) {
  const std::int64_t n = shape.count(), times = n == 0 ? 0 : tensor.count() / n;
  expect(n * times == tensor.count(), "{} does not repeat in {}", shape, tensor.shape());
  Tensor total = Tensor::zeros(shape, compute_type(tensor.dtype()), tensor.device());
  sum_repetitions(tensor.device(), tensor, total);
  return total;
}

}  // namespace lacuna
