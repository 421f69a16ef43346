#include "ops/shapes/resize_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/shapes/resize_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_resize{
    resize_pixels, DeviceKind::cuda,
    [](const ResampledAxes& axes, const Tensor& x, std::int64_t first_row, const Tensor& y) {
      cuda::resize_pixels(stream_of(y.device()), y.dtype(),
                          {.x = x.data<const std::byte>(),
                           .y = y.raw(),
                           .down = axes.down,
                           .across = axes.across,
                           .channels = y.shape().back(),
                           .first_row = first_row,
                           .rows = y.rows()});
    }};
const RegisterKernel cuda_resize_gradient{resize_gradient, DeviceKind::cuda,
                                          [](const ResampledAxes& axes, const Tensor& dy, const Tensor& dx) {
                                            cuda::resize_gradient(stream_of(dx.device()), dx.dtype(),
                                                                  {.dy = dy.data<const std::byte>(),
                                                                   .dx = dx.raw(),
                                                                   .down = axes.down,
                                                                   .across = axes.across,
                                                                   .channels = dx.shape().back(),
                                                                   .images = dx.shape()[0]});
                                          }};

}  // namespace
}  // namespace lacuna
