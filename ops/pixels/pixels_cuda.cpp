#include "ops/pixels/pixels_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/pixels/pixels_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_normalize{
    normalize_pixels, DeviceKind::cuda, [](const Tensor& x, const Tensor& scale, const Tensor& mixes, const Tensor& y) {
      const Shape& shape = x.shape();
      cuda::normalize_pixels(stream_of(y.device()), y.dtype(),
                             {.x = x.data<const std::uint8_t>(),
                              .scale = scale.data<const float>(),
                              .mixes = mixes.defined() ? mixes.data<const float>() : nullptr,
                              .samples = shape[0],
                              .height = shape[1],
                              .width = shape[2],
                              .channels = shape[3]},
                             y.raw());
    }};

}  // namespace
}  // namespace lacuna
