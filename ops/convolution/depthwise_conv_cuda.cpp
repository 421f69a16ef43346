#include "ops/convolution/depthwise_conv_cuda.h"

#include "core/backend.h"
#include "ops/convolution/depthwise_conv_kernels.h"

namespace lacuna {
namespace {

cuda::DepthwiseExtents extents_of(const DepthwiseShape& s) {
  return {s.images, s.height, s.width, s.channels,   s.kernel,   s.stride,
          s.spread, s.top,    s.left,  s.out_height, s.out_width};
}

const RegisterKernel cuda_taps{depthwise_taps, DeviceKind::cuda,
                               [](const Tensor& weight, bool flipped, const Tensor& taps) {
                                 const std::int64_t channels = weight.shape()[0];
                                 cuda::depthwise_taps(stream_of(taps.device()), {.weights = weight.data<const float>(),
                                                                                 .taps = taps.data<float>(),
                                                                                 .channels = channels,
                                                                                 .count = weight.count() / channels,
                                                                                 .flipped = flipped});
                               }};
const RegisterKernel cuda_forward{
    depthwise_forward, DeviceKind::cuda,
    [](const DepthwiseShape& s, const Tensor& x, const Tensor& taps, const Tensor& bias, const Tensor& y, bool add) {
      cuda::depthwise_forward(stream_of(y.device()), y.dtype(),
                              {.of = extents_of(s),
                               .x = x.data<const std::byte>(),
                               .taps = taps.data<const float>(),
                               .bias = bias.defined() ? bias.data<const float>() : nullptr,
                               .y = y.raw(),
                               .add = add});
    }};
const RegisterKernel cuda_weight_sums{
    depthwise_weight_sums, DeviceKind::cuda,
    [](const DepthwiseShape& s, const Tensor& x, const Tensor& dy, std::int64_t first, const Tensor& sums) {
      cuda::depthwise_sums(stream_of(dy.device()), dy.dtype(),
                           {.of = extents_of(s),
                            .x = x.data<const std::byte>(),
                            .dy = dy.data<const std::byte>(),
                            .sums = sums.data<float>(),
                            .first = first,
                            .parts = sums.shape()[0]});
    }};
const RegisterKernel cuda_weight_gradient{
    depthwise_weight_gradient, DeviceKind::cuda, [](const Tensor& sums, const Tensor& dweight) {
      const std::int64_t channels = dweight.shape()[0];
      cuda::depthwise_gradient(stream_of(dweight.device()), {.sums = sums.data<const float>(),
                                                             .weights = dweight.data<float>(),
                                                             .parts = sums.shape()[0],
                                                             .channels = channels,
                                                             .count = dweight.count() / channels});
    }};

}  // namespace
}  // namespace lacuna
