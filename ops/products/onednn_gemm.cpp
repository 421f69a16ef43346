#include "ops/products/onednn_gemm.h"

#include <oneapi/dnnl/dnnl.h>

#include "core/allocator.h"

namespace lacuna::onednn {

// The same C function in oneDNN 2 and 3. On AVX2 the inner product and matmul primitives call it too; calling it
// directly avoids creating primitives for plain layouts.
void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const Operand& a, const Operand& b, float beta,
           float* c, std::int64_t c_stride) {
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, alpha, a.data,
                                          a.stride, b.data, b.stride, beta, c, c_stride);
  if (status == dnnl_out_of_memory) throw_out_of_memory(0, "by oneDNN for a matrix product");
  expect(status == dnnl_success, "oneDNN sgemm of [{}, {}] by [{}, {}] failed with status {}", m, k, k, n,
         static_cast<int>(status));
}

}  // namespace lacuna::onednn
