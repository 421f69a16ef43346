#include "ops/cuda/map.h"
#include "ops/cuda/operand.h"
#include "ops/curves/activation_kernels.h"
#include "ops/formulas.h"

namespace lacuna {
namespace {

template <class Formula>
void apply_on_cuda(const Tensor& x, const Tensor& y) {
  cuda::map(stream_of(y.device()), y.dtype(), y.count(), Formula{}, x.data<const std::byte>(), y.raw());
}

template <class Formula>
void backward_on_cuda(const Operand& saved, const Tensor& dy, const Tensor& dx) {
  cuda::for_saved_values(saved, dy.rows(), [&](std::int64_t begin, std::int64_t end, const cuda::SavedValues& values) {
    const Tensor out = dx.row_range(begin, end);
    cuda::map_saved(stream_of(dx.device()), dy.dtype(), out.count(), Formula{},
                    dy.row_range(begin, end).data<const std::byte>(), values, out.raw());
  });
}

template <class Formula>
void of_codes_on_cuda(const Operand& x, std::int64_t begin, const Tensor& y) {
  cuda::map_coded(stream_of(y.device()), y.dtype(), cuda::coded_range(x, begin, y), Formula{}, y.raw());
}

#define LACUNA_REGISTER(C)                                                                               \
  const RegisterKernel cuda_##C{curve_forward<formula::C>, DeviceKind::cuda, apply_on_cuda<formula::C>}; \
  const RegisterKernel cuda_##C##_backward{curve_backward<formula::C>, DeviceKind::cuda,                 \
                                           backward_on_cuda<formula::C##Backward>};                      \
  const RegisterKernel cuda_##C##_of_codes{curve_of_codes<formula::C>, DeviceKind::cuda, of_codes_on_cuda<formula::C>};
LACUNA_CURVES(LACUNA_REGISTER)

const RegisterKernel cuda_relu{relu_forward, DeviceKind::cuda, apply_on_cuda<formula::Relu>};
const RegisterKernel cuda_relu_of_codes{curve_of_codes<formula::Relu>, DeviceKind::cuda,
                                        of_codes_on_cuda<formula::Relu>};
const RegisterKernel cuda_relu_backward{
    relu_backward, DeviceKind::cuda, [](const Tensor& y, const Tensor& dy, const Tensor& dx) {
      cuda::map(stream_of(dx.device()), dy.dtype(), dy.count(), formula::ReluBackward{}, dy.data<const std::byte>(),
                y.data<const std::byte>(), dx.raw());
    }};

}  // namespace
}  // namespace lacuna
