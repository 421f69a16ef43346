#include "ops/norms/running_statistics_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/cuda/map.h"
#include "ops/formulas.h"
#include "ops/norms/running_statistics_kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_update{ema_update_elements, DeviceKind::cuda,
                                 [](float momentum, float factor, const Tensor& value, const Tensor& running) {
                                   cuda::map(stream_of(running.device()), running.dtype(), running.count(),
                                             formula::Follow{momentum, factor}, running.raw(),
                                             value.data<const std::byte>(), running.raw());
                                 }};
const RegisterKernel cuda_increment{increment_counter, DeviceKind::cuda, [](const Tensor& counter) {
                                      cuda::increment(stream_of(counter.device()), counter.data<std::int64_t>());
                                    }};

}  // namespace
}  // namespace lacuna
