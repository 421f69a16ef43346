#include "ops/arithmetic/gate_channels_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/arithmetic/gate_channels_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_gate{
    gate_channels, DeviceKind::cuda,
    [](const Tensor& x, const Tensor& gate, std::int64_t pixels, std::int64_t first_row, const Tensor& y) {
      cuda::gate_channels(stream_of(y.device()), y.dtype(),
                          {.x = x.data<const std::byte>(),
                           .gate = gate.data<const std::byte>(),
                           .y = y.raw(),
                           .rows = y.rows(),
                           .channels = y.shape().back(),
                           .pixels = pixels,
                           .first_row = first_row});
    }};
const RegisterKernel cuda_gradient{gate_channels_gradient, DeviceKind::cuda,
                                   [](const Tensor& dy, const Tensor& x, const Tensor& dgate) {
                                     cuda::gate_channels_gradient(stream_of(dy.device()), dy.dtype(),
                                                                  {.dy = dy.data<const std::byte>(),
                                                                   .x = x.data<const std::byte>(),
                                                                   .dgate = dgate.raw(),
                                                                   .images = dgate.shape()[0],
                                                                   .pixels = dy.count() / dgate.count(),
                                                                   .channels = dgate.shape()[1]});
                                   }};

}  // namespace
}  // namespace lacuna
