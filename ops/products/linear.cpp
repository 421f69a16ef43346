#include "ops/products/linear.h"

#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/operand.h"
#include "ops/products/gemm.h"
#include "ops/products/linear_kernels.h"
#include "ops/row_blocks.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<Linear> linear;

/// Number of row blocks over which backward sums the gradients of weight and bias. If x is quantized, one block of it
/// is decoded at a time: about 1024 rows of f32 stay in a CPU's cache, and are enough to hide the cost of adding to the
/// gradient; a GPU takes as many as it has room for. The number depends on shape, type and device alone, so that a
/// quantized and a kept x are summed in the same order.
std::int64_t count_row_blocks(std::int64_t rows, std::int64_t row_bytes, DType dtype, Device device) {
  const std::int64_t cached = 4096 / size_of(dtype);
  const std::int64_t block = computes_on_cuda(device)
                                 ? std::max(cached, summed_at_once(device) / std::max<std::int64_t>(1, row_bytes))
                                 : cached;
  return std::max<std::int64_t>(1, (rows + block / 2) / block);
}

/// Each thread sums a part of the rows in `partial` [threads, N]; the parts are added in order.
template <class T>
void sum_rows_on_cpu(const Tensor& dy, bool add, const Tensor& sums) {
  using C = Compute<T>;
  const std::int64_t count = dy.rows(), width = dy.shape().back(), parts = threads();
  const Tensor partial = Tensor::empty({parts, width}, dtype_of<C>(), dy.device(), Purpose::workspace);
  if (dy.device() == Device::meta) return;
  const T* const rows = dy.data<T>();
  parallel_tasks(parts, [&](std::int64_t index, std::int64_t) {
    const Range range = part(count, index, parts);
    C* const sum = partial.data<C>() + index * width;
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
    C sum = add ? sums.data<C>()[j] : C(0);
    for (std::int64_t p = 0; p < parts; ++p) sum += partial.data<C>()[p * width + j];
    sums.data<C>()[j] = sum;
  }
}

const RegisterKernel cpu_sum_rows{
    sum_rows, {DeviceKind::cpu, DeviceKind::meta}, [](const Tensor& dy, bool add, const Tensor& sums) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) { sum_rows_on_cpu<T>(dy, add, sums); });
    }};

const RegisterKernel cpu_gradients{linear_gradients,
                                   {DeviceKind::cpu, DeviceKind::meta},
                                   [](const Tensor& dy, const Tensor& x, bool add_weight, const Tensor& of_weight,
                                      bool add_bias, const Tensor& of_bias) {
                                     sum_rows(dy.device(), dy, add_bias, of_bias);
                                     gemm(Matrix(dy).t(), Matrix(x), Matrix(of_weight), {.add = add_weight});
                                   }};

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
  const Tensor added = inputs.size() > residual ? inputs[residual] : Tensor();
  if (added.defined())
    expect(added.shape() == y.shape() && added.dtype() == y.dtype(),
           "linear: expected a residual {} in {}, got {} in {}", y.shape(), name_of(y.dtype()), added.shape(),
           name_of(added.dtype()));
  gemm(Matrix(in), Matrix(w).t(), Matrix(y), {.bias = inputs[bias], .addend = added});
  return y;
}

void Linear::backward(Tensor dy, const Saved<Linear>& saved, Grads& grads) const {
  const std::int64_t rows = dy.rows(), features = dy.shape().back();
  const DType parameters = compute_type(dy.dtype());
  if (rows == 0) {  // sums of nothing are zeros
    const auto fill = [&](Input input, const Shape& shape, DType dtype) {
      if (grads.wanted(input) && !grads[input].defined()) grads[input] = Tensor::zeros(shape, dtype, dy.device());
    };
    if (grads.wanted(weight)) fill(weight, {features, saved.shape<input(x)>().back()}, parameters);
    fill(bias, {features}, parameters);
    if (grads.wanted(x)) fill(x, dy.shape().with_back(saved.shape<input(weight)>().back()), dy.dtype());
    fill(residual, dy.shape(), dy.dtype());
    return;
  }
  const bool of_weight = grads.wanted(weight), of_bias = grads.wanted(bias);
  if (of_weight || of_bias) {
    bool add_weight = grads[weight].defined(), add_bias = grads[bias].defined();
    if (of_bias && !add_bias) grads[bias] = Tensor::empty({features}, parameters, dy.device());
    // With a frozen weight x was not saved.
    const Operand in = of_weight ? saved.get<input(x)>() : Operand();
    if (of_weight && !add_weight) grads[weight] = Tensor::empty({features, in.shape().back()}, parameters, dy.device());
    const std::int64_t row_bytes = (of_weight ? in.shape().back() : features) * size_of(dy.dtype());
    const std::int64_t blocks = count_row_blocks(rows, row_bytes, dy.dtype(), dy.device()),
                       longest = (rows + blocks - 1) / blocks;
    const bool is_meta = dy.device() == Device::meta;  // two blocks show what memory all of them take
    for (std::int64_t block = 0; block < (is_meta ? std::min<std::int64_t>(blocks, 2) : blocks); ++block) {
      const Range range = is_meta ? Range{0, longest} : part(rows, block, blocks);
      const Tensor dy_block = dy.row_range(range.begin, range.end);                   // [block, N]
      const Tensor x_block = of_weight ? in.rows(range.begin, range.end) : Tensor();  // [block, K]
      if (of_weight && of_bias)
        linear_gradients(dy.device(), dy_block, x_block, std::exchange(add_weight, true), grads[weight],
                         std::exchange(add_bias, true), grads[bias]);
      else if (of_weight)
        gemm(Matrix(dy_block).t(), Matrix(x_block), Matrix(grads[weight]), {.add = std::exchange(add_weight, true)});
      else
        sum_rows(dy.device(), dy_block, std::exchange(add_bias, true), grads[bias]);
    }
  }
  if (grads.wanted(x)) {
    const Tensor w = saved.get<input(weight)>().whole();
    const bool add = grads[x].defined();
    if (!add) grads[x] = Tensor::empty(dy.shape().with_back(w.shape()[1]), dy.dtype(), dy.device());
    gemm(Matrix(dy), Matrix(w), Matrix(grads[x]), {.add = add});
  }
  if (grads.wanted(residual)) pass_on(dy, grads[residual]);
}

}  // namespace lacuna
