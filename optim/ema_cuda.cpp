#include "optim/ema_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/cuda/map.h"
#include "optim/kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_average{
    average_weights, DeviceKind::cuda, [](double decay, const Tensor& value, const Tensor& average) {
      cuda::map(stream_of(average.device()), DType::f32, average.count(), average_step(decay),
                average.data<const float>(), value.data<const float>(), average.raw());
    }};

const RegisterKernel cuda_swap{swap_contents, DeviceKind::cuda, [](const Tensor& a, const Tensor& b) {
                                 cuda::swap_contents(
                                     stream_of(a.device()),
                                     {.a = a.raw(), .b = b.raw(), .bytes = static_cast<std::int64_t>(a.bytes())});
                               }};

}  // namespace
}  // namespace lacuna
