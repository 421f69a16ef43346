#include "ops/reduce.h"

#include "ops/kernels/rowwise.h"

namespace lacuna {
namespace {

const RegisterOp<Sum> sum_op;
const RegisterOp<Mean> mean_op;

/// factor · Σ x as a scalar. Runs of fixed length are added up in the compute type and their sums in double, one after
/// the other, so that the bits do not depend on the number of threads.
Tensor scaled_sum(const Tensor& x, double factor) {
  constexpr std::int64_t run = 4096;
  Tensor y = Tensor::empty({}, x.dtype(), x.device());
  const std::int64_t runs = (x.count() + run - 1) / run;
  const Tensor partial = Tensor::empty({runs}, DType::f64, x.device(), Purpose::workspace);
  launch(x.device(), [&] {
    with_float_type(x.dtype(), [&]<class T>(Type<T>) {
      using C = Compute<T>;
      const T* const in = x.data<T>();
      double* const sums = partial.data<double>();
      parallel_for(runs, 4, [&](std::int64_t begin, std::int64_t end) {
        std::vector<C> scratch = row_scratch<T>(run);
        for (std::int64_t k = begin; k < end; ++k) {
          const std::int64_t count = std::min(run, x.count() - k * run);
          const C* const values = in_compute_type(in + k * run, count, scratch.data());
          sums[k] = static_cast<double>(sum_of(
              count, [](const auto& v) { return v; }, values));
        }
      });
      double total = 0;
      for (std::int64_t k = 0; k < runs; ++k) total += sums[k];
      *y.data<T>() = static_cast<T>(static_cast<C>(factor * total));
    });
  });
  return y;
}

/// factor · dy in every element of a tensor of `shape`.
Tensor spread(const Tensor& dy, double factor, const Shape& shape) {
  Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
  launch(dy.device(), [&] { dx.fill(factor * dy.item()); });
  return dx;
}

/// The mean is undefined for no elements: 0 / 0, as elsewhere.
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
  launch(tensor.device(), [&] {
    with_float_type(tensor.dtype(), [&]<class T>(Type<T>) {
      const T* const in = tensor.data<T>();  // [times, n]
      Compute<T>* const out = total.data<Compute<T>>();
      parallel_for(
          n, tensor.count() < 65536 ? n + 1 : 0,
          [&](std::int64_t begin, std::int64_t end) {
            constexpr std::int64_t tile = 2048;  // stays in the first cache while the repetitions pass
            for (std::int64_t first = begin; first < end; first += tile) {
              const std::int64_t last = std::min(end, first + tile);
              for (std::int64_t k = 0; k < times; ++k) {
#pragma GCC ivdep
                for (std::int64_t i = first; i < last; ++i) out[i] += to_compute(in[k * n + i]);
              }
            }
          },
          16);
    });
  });
  return total;
}

}  // namespace lacuna
