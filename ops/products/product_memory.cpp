#include "ops/products/product_memory.h"

#include "core/error.h"
#include "ops/cuda_libraries.h"

#include <algorithm>

namespace lacuna {
namespace {

constexpr std::int64_t bytes_at_once = std::int64_t{32} << 20;  // of gathered rows

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

std::int64_t gathered_at_once(std::int64_t row_bytes) {
  return std::max<std::int64_t>(1, bytes_at_once / std::max<std::int64_t>(1, row_bytes));
}

void take_memory_on_cuda(ConvPass pass, const ConvShape& s, DType dtype, Device device) {
  const bool is_product = s.kernel_height == 1 && s.kernel_width == 1 && s.stride == 1 && s.padding == 0;
  const std::int64_t size = size_of(dtype), taps = s.kernel_height * s.kernel_width;
  const std::int64_t windows = s.out_height() * s.out_width(), pixels = s.height * s.width;
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
      return take({s.outputs, depth / s.groups}, dtype, std::min(rows, gathered_at_once(depth * size)), depth, 0);
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
          const std::int64_t most = std::min(rows, gathered_at_once((depth + (direct ? 0 : s.channels)) * size));
          take({depth, s.channels / s.groups}, dtype, most, depth, direct ? 0 : most);
        }
      return;
    case ConvPass::weight_gradient: {
      const std::int64_t depth = taps * s.channels;
      const std::int64_t images = gathered_at_once(std::max(pixels * s.channels, windows * depth) * size);
      const std::int64_t rows = std::min(gathered_at_once(depth * size), std::min(images, s.images) * windows);
      return take({is_product && s.groups == 1 ? 0 : s.outputs, depth / s.groups}, DType::f32, rows, depth, 0);
    }
  }
}

}  // namespace lacuna
