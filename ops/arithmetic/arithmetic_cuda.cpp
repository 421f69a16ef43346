#include "ops/arithmetic/arithmetic_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/cuda/map.h"
#include "ops/formulas.h"

namespace lacuna {
namespace {

template <class Formula>
void combine_on_cuda(const Tensor& a, const Tensor& b, const Tensor& y) {
  cuda::map(stream_of(y.device()), y.dtype(), y.count(), Formula{}, a.data<const std::byte>(),
            b.data<const std::byte>(), y.raw());
}

const RegisterKernel cuda_add{add_elements, DeviceKind::cuda, combine_on_cuda<formula::Add>};
const RegisterKernel cuda_multiply{multiply_elements, DeviceKind::cuda, combine_on_cuda<formula::Mul>};
const RegisterKernel cuda_scale{scale_elements, DeviceKind::cuda, [](double factor, const Tensor& x, const Tensor& y) {
                                  cuda::map(stream_of(y.device()), y.dtype(), y.count(), formula::Scale{factor},
                                            x.data<const std::byte>(), y.raw());
                                }};
const RegisterKernel cuda_add_rows{add_rows, DeviceKind::cuda,
                                   [](const Tensor& x, const Tensor& b, std::int64_t first_row, const Tensor& y) {
                                     if (y.count() == 0) return;
                                     cuda::add_rows(stream_of(y.device()), y.dtype(),
                                                    {.x = x.data<const std::byte>(),
                                                     .b = b.data<const float>(),
                                                     .y = y.raw(),
                                                     .rows = y.rows(),
                                                     .width = y.shape().back(),
                                                     .b_rows = b.count() / y.shape().back(),
                                                     .first_row = first_row});
                                   }};

}  // namespace
}  // namespace lacuna
