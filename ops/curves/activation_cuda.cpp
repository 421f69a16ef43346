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

const RegisterKernel cuda_gelu_erf{gelu_erf, DeviceKind::cuda, apply_on_cuda<formula::GeluErf>};
const RegisterKernel cuda_gelu_tanh{gelu_tanh, DeviceKind::cuda, apply_on_cuda<formula::GeluTanh>};
const RegisterKernel cuda_relu{relu_forward, DeviceKind::cuda, apply_on_cuda<formula::Relu>};
const RegisterKernel cuda_silu{silu_forward, DeviceKind::cuda, apply_on_cuda<formula::Silu>};
const RegisterKernel cuda_quick_gelu{quick_gelu_forward, DeviceKind::cuda, apply_on_cuda<formula::QuickGelu>};
const RegisterKernel cuda_sigmoid{sigmoid_forward, DeviceKind::cuda, apply_on_cuda<formula::Sigmoid>};
const RegisterKernel cuda_tanh{tanh_forward, DeviceKind::cuda, apply_on_cuda<formula::Tanh>};

const RegisterKernel cuda_gelu_erf_backward{gelu_erf_backward, DeviceKind::cuda,
                                            backward_on_cuda<formula::GeluErfBackward>};
const RegisterKernel cuda_gelu_tanh_backward{gelu_tanh_backward, DeviceKind::cuda,
                                             backward_on_cuda<formula::GeluTanhBackward>};
const RegisterKernel cuda_silu_backward{silu_backward, DeviceKind::cuda, backward_on_cuda<formula::SiluBackward>};
const RegisterKernel cuda_quick_gelu_backward{quick_gelu_backward, DeviceKind::cuda,
                                              backward_on_cuda<formula::QuickGeluBackward>};
const RegisterKernel cuda_sigmoid_backward{sigmoid_backward, DeviceKind::cuda,
                                           backward_on_cuda<formula::SigmoidBackward>};
const RegisterKernel cuda_tanh_backward{tanh_backward, DeviceKind::cuda, backward_on_cuda<formula::TanhBackward>};

const RegisterKernel cuda_relu_backward{
    relu_backward, DeviceKind::cuda, [](const Tensor& y, const Tensor& dy, const Tensor& dx) {
      cuda::map(stream_of(dx.device()), dy.dtype(), dy.count(), formula::ReluBackward{}, dy.data<const std::byte>(),
                y.data<const std::byte>(), dx.raw());
    }};

}  // namespace
}  // namespace lacuna
