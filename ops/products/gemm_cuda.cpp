// Matrix products on a GPU. Operands of unequal types are brought to one in a workspace: a weight in f32 that meets
// activations in bf16 is converted for the product alone.
#include "core/backend.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/products/product_cuda.h"
#include "ops/products/product_memory.h"
#include "ops/products/tf32.h"

namespace lacuna {
namespace {

/// The matrix itself, or its copy in `copy`.
Matrix with_copy(const Matrix& m, const Tensor& copy) {
  if (!copy.defined()) return m;
  copy.copy_from(m.tensor);
  Matrix converted = m;
  converted.tensor = copy;
  return converted;
}

cuda::Factor factor_of(const Matrix& m, std::int64_t batch) {
  std::byte* const data = m.tensor.raw() + m.first * size_of(m.tensor.dtype());
  const std::int64_t rows = m.rows / batch;
  return {data, m.tensor.dtype(), rows, m.columns, m.stride, m.transposed, rows * m.stride};
}

void multiply(std::int64_t batch, const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
  const Device device = c.tensor.device();
  const ProductMemory memory(a, b, c, options);
  const Matrix to = with_copy(c, memory.c);  // all of it is copied back, with what lies beside the matrix
  const Matrix left = with_copy(a, memory.a), right = with_copy(b, memory.b);
  if (memory.bias.defined()) memory.bias.copy_from(options.bias);
  const Tensor& bias = memory.bias.defined() ? memory.bias : options.bias;
  const bool adds_within = options.addend.defined() && !memory.c.defined();
  cuda::multiply(stream_of(device), device.index,
                 {.a = factor_of(left, batch),
                  .b = factor_of(right, batch),
                  .c = factor_of(to, batch),
                  .batch = batch,
                  .alpha = static_cast<float>(options.alpha),
                  .add = options.add,
                  .addend = adds_within ? options.addend.raw() : nullptr,
                  .bias = bias.defined() ? bias.raw() : nullptr,
                  .tf32 = memory.inner == DType::f32 && uses_tf32()},
                 memory.workspace.raw());
  if (memory.c.defined()) c.tensor.copy_from(memory.c);
  if (options.addend.defined() && !adds_within) add_elements(device, c.tensor, options.addend, c.tensor);
}

const RegisterKernel cuda_gemm{gemm_kernel, DeviceKind::cuda,
                               [](const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
                                 multiply(1, a, b, c, options);
                               }};
const RegisterKernel cuda_gemm_batched{gemm_batched_kernel, DeviceKind::cuda, multiply};

}  // namespace
}  // namespace lacuna
