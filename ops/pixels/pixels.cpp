#include "ops/pixels/pixels.h"

#include "core/parallel.h"
#include "core/tensor.h"
#include "ops/pixels/pixels_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_normalize{
    normalize_pixels, DeviceKind::cpu, [](const Tensor& x, const Tensor& scale, const Tensor& mixes, const Tensor& y) {
      const Shape& shape = x.shape();
      const PixelImages images{.x = x.data<const std::uint8_t>(),
                               .scale = scale.data<const float>(),
                               .mixes = mixes.defined() ? mixes.data<const float>() : nullptr,
                               .samples = shape[0],
                               .height = shape[1],
                               .width = shape[2],
                               .channels = shape[3]};
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        parallel_for(y.count(), 4096, [&, to = y.data<T>()](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) to[i] = T(images(i));
        });
      });
    }};

}  // namespace
}  // namespace lacuna
