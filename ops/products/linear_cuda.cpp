#include "core/backend.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/arithmetic/reduce_kernels.h"
#include "ops/products/gemm.h"
#include "ops/products/linear_kernels.h"
#include "ops/products/product_cuda.h"
#include "ops/products/tf32.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <functional>

namespace lacuna {
namespace {

void sum_rows_on_cuda(const Tensor& dy, bool add, const Tensor& sums) {
  if (!add) sums.fill(0);
  sum_repetitions(dy.device(), dy, sums);
}

/// The product that also sums the rows of dyᵀ.
cuda::Product product_with_sums(const Tensor& dy, const Tensor& x, bool add, const Tensor& weight, float* sums) {
  const auto factor = [](const Tensor& tensor, bool transposed) {
    const std::int64_t rows = tensor.rows(), columns = tensor.shape().back();
    return cuda::Factor{tensor.raw(), tensor.dtype(), rows, columns, columns, transposed, rows * columns};
  };
  return {.a = factor(dy, true),
          .b = factor(x, false),
          .c = factor(weight, false),
          .add = add,
          .row_sums = sums,
          .tf32 = dy.dtype() == DType::f32 && uses_tf32()};
}

/// dy is read once where the library sums its columns within the product, and that is faster on this card.
void gradients(const Tensor& dy, const Tensor& x, bool add_weight, const Tensor& weight, bool add_bias,
               const Tensor& bias) {
  const Device device = dy.device();
  const auto within = [&] {
    const Tensor sums = add_bias ? Tensor::empty(bias.shape(), bias.dtype(), device, Purpose::workspace) : bias;
    const Tensor workspace = Tensor::empty({library_workspace}, DType::u8, device, Purpose::workspace);
    cuda::multiply(stream_of(device), device.index, product_with_sums(dy, x, add_weight, weight, sums.data<float>()),
                   workspace.raw());
    if (add_bias) add_elements(device, bias, sums, bias);
  };
  const auto apart = [&] {
    sum_rows_on_cuda(dy, add_bias, bias);
    gemm(Matrix(dy).t(), Matrix(x), Matrix(weight), {.add = add_weight});
  };
  enum Way : std::size_t { by_two, by_one, ways };
  const auto run = [&](std::size_t way) {
    way == by_one ? within() : apart();
    return true;
  };
  std::size_t way = by_two;
  if (cuda::has_plan(device.index, product_with_sums(dy, x, add_weight, weight, bias.data<float>())))
    // Rows of blocks differ by one.
    way = cuda::choose(
        stream_of(device), device.index,
        fmt::format("sums beside a product: {} by {} in {}{}, 2^{} rows", weight.shape()[0], weight.shape()[1],
                    name_of(dy.dtype()), dy.dtype() == DType::f32 && uses_tf32() ? " as tf32" : "",
                    std::bit_width(static_cast<std::uint64_t>(dy.rows()))),
        ways, add_weight || add_bias ? std::function<bool(std::size_t)>() : run);
  run(way);
}

const RegisterKernel cuda_sum_rows{sum_rows, DeviceKind::cuda, sum_rows_on_cuda};
const RegisterKernel cuda_gradients{linear_gradients, DeviceKind::cuda, gradients};

}  // namespace
}  // namespace lacuna
