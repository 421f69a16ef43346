#include "ops/quantize/slope_cuda.h"

#include "core/backend.h"
#include "ops/quantize/quantize_kernels.h"

#include <algorithm>

namespace lacuna::quant {
namespace {

cuda::Slopes slopes_of(const SlopeLevels& levels) {
  cuda::Slopes slopes;
  std::ranges::copy(levels.thresholds, slopes.thresholds);
  std::ranges::copy(levels.points, slopes.points);
  return slopes;
}

const RegisterKernel cuda_encode{encode_slopes, DeviceKind::cuda,
                                 [](const Tensor& values, const SlopeLevels& levels, const Tensor& bytes) {
                                   cuda::encode_slopes(stream_of(values.device()), values.dtype(), slopes_of(levels),
                                                       values.raw(), values.count(), bytes.data<std::uint8_t>());
                                 }};
const RegisterKernel cuda_decode{
    decode_slopes, DeviceKind::cuda,
    [](const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, const Tensor& out) {
      cuda::decode_slopes(stream_of(out.device()), out.dtype(), slopes_of(levels), bytes.data<std::uint8_t>(), begin,
                          out.count(), out.raw());
    }};

}  // namespace
}  // namespace lacuna::quant
