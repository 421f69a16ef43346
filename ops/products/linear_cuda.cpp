#include "core/tensor.h"
#include "ops/arithmetic/reduce_kernels.h"
#include "ops/products/linear_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_sum_rows{sum_rows, DeviceKind::cuda, [](const Tensor& dy, bool add, const Tensor& sums) {
                                     if (!add) sums.fill(0);
                                     sum_repetitions(dy.device(), dy, sums);
                                   }};

}  // namespace
}  // namespace lacuna
