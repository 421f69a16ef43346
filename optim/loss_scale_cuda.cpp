#include "optim/loss_scale_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/arithmetic/factor.h"
#include "optim/kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_seed{
    seed_loss_gradient, DeviceKind::cuda, [](const Factor& share, const Tensor& scale, const Tensor& gradient) {
      cuda::seed_loss_gradient(stream_of(gradient.device()),
                               {.share = share.value,
                                .times = share.times(),
                                .scale = scale.defined() ? scale.data<const float>() : nullptr,
                                .gradient = gradient.data<float>()});
    }};

const RegisterKernel cuda_adapt{
    adapt_loss_scale, DeviceKind::cuda,
    [](const Tensor& finite, std::int64_t growth_interval, const Tensor& scale, const Tensor& good_steps) {
      cuda::adapt_loss_scale(stream_of(scale.device()), {.finite = finite.data<const std::int32_t>(),
                                                         .growth_interval = growth_interval,
                                                         .scale = scale.data<float>(),
                                                         .good_steps = good_steps.data<std::int32_t>()});
    }};

}  // namespace
}  // namespace lacuna
