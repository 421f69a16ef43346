#include "ops/attention/rotary_cuda.h"

#include "core/backend.h"
#include "ops/attention/rotary.h"

#include <span>

namespace lacuna {
namespace {

const RegisterKernel cuda_rotate{
    rotate_rows, DeviceKind::cuda, [](const Rotation& how, const Tensor& x, const Tensor& y) {
      const Device device = y.device();
      const Tensor cos = how.table.cos.to(device), sin = how.table.sin.to(device);  // of the model: they are there
      const Tensor positions = Tensor::from(std::span<const std::int64_t>(how.positions), {y.rows()}, device);
      cuda::rotate(stream_of(device), y.dtype(),
                   {.x = x.data<const std::byte>(),
                    .y = y.raw(),
                    .cos = cos.data<const float>(),
                    .sin = sin.data<const float>(),
                    .positions = positions.data<const std::int64_t>(),
                    .rows = y.rows(),
                    .heads = how.heads,
                    .width = y.shape().back() / how.heads,
                    .n = cos.shape().back(),
                    .neighbours = how.neighbours,
                    .direction = how.inverse ? -1.0F : 1.0F});
    }};

}  // namespace
}  // namespace lacuna
