#include "ops/products/scaled_linear_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/products/scaled_linear_kernels.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterKernel cuda_scale_rows{
    scale_rows, DeviceKind::cuda, [](const Tensor& values, const Tensor& scale, const Tensor& scaled) {
      const std::int64_t rows = scale.count();
      cuda::scale_rows(stream_of(scaled.device()), {.from = values.data<const float>(),
                                                    .factors = scale.data<const float>(),
                                                    .to = scaled.data<float>(),
                                                    .rows = rows,
                                                    .width = values.count() / std::max<std::int64_t>(rows, 1)});
    }};
const RegisterKernel cuda_scale_gradient{scaled_linear_scale_gradient, DeviceKind::cuda,
                                         [](const Tensor& weight, const Tensor& weight_sums, const Tensor& bias,
                                            const Tensor& bias_sums, const Tensor& gradient) {
                                           cuda::scale_gradient(
                                               stream_of(weight.device()),
                                               {.weight = weight.data<const float>(),
                                                .weight_sums = weight_sums.data<const float>(),
                                                .bias = bias.defined() ? bias.data<const float>() : nullptr,
                                                .bias_sums = bias.defined() ? bias_sums.data<const float>() : nullptr,
                                                .to = gradient.data<float>(),
                                                .rows = weight.shape()[0],
                                                .width = weight.shape()[1]});
                                         }};

}  // namespace
}  // namespace lacuna
