// Matrix products on a GPU. Operands of unequal types are brought to one in a workspace: a weight in f32 that meets
// activations in bf16 is converted for the product alone.
#include "core/backend.h"
#include "ops/kernels/gemm.h"
#include "ops/product_cuda.h"
#include "ops/tf32.h"

namespace lacuna {
namespace {

/// The type in which two operands are multiplied.
DType common_type(DType a, DType b) {
  if (a == b) return a;
  expect(a == DType::f32 || b == DType::f32,
         "matrix product: expected operands of one type, or f32 and another; got {} and {}", name_of(a), name_of(b));
  return a == DType::f32 ? b : a;
}

/// The matrix in `dtype`: itself, or a copy in `copy`.
Matrix in_type(const Matrix& m, DType dtype, Tensor& copy) {
  if (m.tensor.dtype() == dtype) return m;
  copy = Tensor::empty(m.tensor.shape(), dtype, m.tensor.device(), Purpose::workspace);
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
  const DType inner = common_type(a.tensor.dtype(), b.tensor.dtype()), out = c.tensor.dtype();
  const bool writes_directly = out == inner || out == DType::f32;
  Tensor a_copy, b_copy, bias_copy, c_copy;
  Matrix to = c;
  if (!writes_directly) {  // f32 operands into a narrower result
    c_copy = Tensor::empty(c.tensor.shape(), DType::f32, device, Purpose::workspace);
    c_copy.copy_from(c.tensor);  // all of it is copied back, with what lies beside the matrix
    to.tensor = c_copy;
  }
  const DType result = to.tensor.dtype();
  Tensor bias = options.bias;
  if (bias.defined() && bias.dtype() != result) {
    bias_copy = Tensor::empty(bias.shape(), result, device, Purpose::workspace);
    bias_copy.copy_from(bias);
    bias = bias_copy;
  }
  const Tensor workspace = Tensor::empty({library_workspace}, DType::u8, device, Purpose::workspace);
  const Matrix left = in_type(a, inner, a_copy), right = in_type(b, inner, b_copy);
  cuda::multiply(stream_of(device), device.index,
                 {.a = factor_of(left, batch),
                  .b = factor_of(right, batch),
                  .c = factor_of(to, batch),
                  .batch = batch,
                  .alpha = static_cast<float>(options.alpha),
                  .add = options.add,
                  .bias = bias.defined() ? bias.raw() : nullptr,
                  .tf32 = inner == DType::f32 && uses_tf32()},
                 workspace.raw());
  if (!writes_directly) c.tensor.copy_from(c_copy);
}

const RegisterKernel cuda_gemm{gemm_kernel, DeviceKind::cuda,
                               [](const Matrix& a, const Matrix& b, const Matrix& c, const GemmOptions& options) {
                                 multiply(1, a, b, c, options);
                               }};
const RegisterKernel cuda_gemm_batched{gemm_batched_kernel, DeviceKind::cuda, multiply};

}  // namespace
}  // namespace lacuna
