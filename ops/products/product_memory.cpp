#include "ops/products/product_memory.h"

#include "core/error.h"
#include "ops/cuda_libraries.h"
#include "ops/row_blocks.h"

#include <algorithm>

namespace lacuna {
namespace {

/// The type in which two operands are multiplied.
DType common_type(DType a, DType b) {
  if (a == b) return a;
  expect(a == DType::f32 || b == DType::f32,
         "matrix product: expected operands of one type, or f32 and another; got {} and {}", name_of(a), name_of(b));
  return a == DType::f32 ? b : a;
}

Tensor workspace_of(const Shape& shape, DType dtype, Device device) {
  return Tensor::empty(shape, dtype, device, Purpose::workspace);
}

}  // namespace

ProductMemory::ProductMemory(const Matrix& left, const Matrix& right, const Matrix& to, const GemmOptions& options)
    : inner(common_type(left.tensor.dtype(), right.tensor.dtype())) {
  const Device device = to.tensor.device();
  const auto copy_of = [&](const Tensor& tensor, DType dtype) {
    return tensor.dtype() == dtype ? Tensor() : workspace_of(tensor.shape(), dtype, device);
  };
  const DType out = to.tensor.dtype(), result = out == inner ? out : DType::f32;
  c = copy_of(to.tensor, result);
  if (options.bias.defined()) bias = copy_of(options.bias, result);
  workspace = workspace_of({library_workspace}, DType::u8, device);
  a = copy_of(left.tensor, inner);
  b = copy_of(right.tensor, inner);
}

std::int64_t gathered_at_once(std::int64_t row_bytes, Device device) {
  return std::max<std::int64_t>(1, cached_at_once(device) / std::max<std::int64_t>(1, row_bytes));
}

std::int64_t images_summed_at_once(const ConvShape& s, DType dtype, Device device) {
  const std::int64_t bytes = s.height * s.width * s.channels * size_of(dtype),
                     most = std::max<std::int64_t>(1, summed_at_once(device) / bytes),
                     runs = (s.images + most - 1) / most;
  return (s.images + runs - 1) / runs;
}

void take_memory_on_cuda(ConvPass pass, const ConvShape& s, DType dtype, Device device) {
  const bool is_product = s.kernel_height == 1 && s.kernel_width == 1 && s.stride == 1 && s.padding == 0;
  const std::int64_t size = size_of(dtype), taps = s.kernel_height * s.kernel_width;
  const std::int64_t windows = s.out_height() * s.out_width();
  const auto take = [&](const Shape& weights, DType of_weights, std::int64_t rows, std::int64_t depth,
                        std::int64_t placed) {
    const Tensor arranged = workspace_of(weights, of_weights, device);
    const Tensor gathered = workspace_of({is_product ? 0 : rows, depth}, dtype, device);
    const Tensor results = workspace_of({placed, s.channels}, dtype, device);
    workspace_of({library_workspace}, DType::u8, device);
  };
  switch (pass) {
    case ConvPass::forward: {
      const std::int64_t depth = taps * s.channels, rows = s.images * windows;
      return take({s.outputs, depth / s.groups}, dtype, std::min(rows, gathered_at_once(depth * size, device)), depth,
                  0);
    }
    case ConvPass::input_gradient:  // pixels by what their place leaves when divided by the stride: the most first
      for (std::int64_t row = 0; row < std::min(s.stride, s.height); ++row)
        for (std::int64_t column = 0; column < std::min(s.stride, s.width); ++column) {
          const auto reached = [&](std::int64_t rest, std::int64_t kernel, std::int64_t padding) {
            const std::int64_t first = (rest + padding) % s.stride;
            return first < kernel ? (kernel - first + s.stride - 1) / s.stride : 0;
          };
          const auto count = [&](std::int64_t rest, std::int64_t extent) {
            return (extent - rest + s.stride - 1) / s.stride;
          };
          const std::int64_t depth = reached(row, s.kernel_height, s.padding.top) *
                                     reached(column, s.kernel_width, s.padding.left) * s.outputs;
          if (depth == 0) continue;
          const bool direct = s.stride == 1;
          const std::int64_t rows = s.images * count(row, s.height) * count(column, s.width);
          const std::int64_t most =
              std::min(rows, gathered_at_once((depth + (direct ? 0 : s.channels)) * size, device));
          take({depth, s.channels / s.groups}, dtype, most, depth, direct ? 0 : most);
        }
      return;
    case ConvPass::weight_gradient: {
      const std::int64_t depth = taps * s.channels;
      const std::int64_t rows =
          std::min(gathered_at_once(depth * size, device), images_summed_at_once(s, dtype, device) * windows);
      return take({is_product && s.groups == 1 ? 0 : s.outputs, depth / s.groups}, DType::f32, rows, depth, 0);
    }
  }
}

}  // namespace lacuna
