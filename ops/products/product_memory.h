// Workspaces that matrix products and convolutions allocate on cuda. A step on `meta` that stands for a cuda device
// (core/planned_device.h) allocates them here, too.
#pragma once

#include "ops/convolution/conv_kernels.h"
#include "ops/products/gemm.h"

namespace lacuna {

/// Workspaces of a product; undefined if none is needed.
struct ProductMemory {
  ProductMemory(const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options);

  DType inner;       // the type in which a and b are multiplied
  Tensor a, b;       // copies in it, in the shapes of the operands' tensors
  Tensor c, bias;    // in f32, where the result has a narrower type than that; in the type of the result
  Tensor workspace;  // u8 [library_workspace]
};

enum class ConvPass { forward, input_gradient, weight_gradient };
/// Rows of windows that are gathered at once: of `row_bytes` each, at least one.
std::int64_t gathered_at_once(std::int64_t row_bytes, Device device);
/// Images whose gradient of the weights is summed at once.
std::int64_t images_summed_at_once(const ConvShape& s, DType dtype, Device device);
/// Takes and returns the memory of a convolution by gathered rows, in which x, y and their gradients have type `dtype`.
void take_memory_on_cuda(ConvPass pass, const ConvShape& s, DType dtype, Device device);

}  // namespace lacuna
