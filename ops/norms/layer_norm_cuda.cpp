#include "ops/norms/layer_norm_cuda.h"

#include "ops/arithmetic/reduce_kernels.h"
#include "ops/cuda/block_sums.h"
#include "ops/cuda/operand.h"
#include "ops/norms/layer_norm_kernels.h"

namespace lacuna {
namespace {

/// `x` undefined: codes.
cuda::LayerNormForward forward_of(double eps, const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Tensor& mean, const Tensor& rstd, const Tensor& y) {
  return {.x = x.defined() ? x.data<const std::byte>() : nullptr,
          .weight = weight.data<const float>(),
          .bias = bias.defined() ? bias.data<const float>() : nullptr,
          .mean = mean.data<float>(),
          .rstd = rstd.data<float>(),
          .y = y.raw(),
          .rows = y.rows(),
          .columns = y.shape().back(),
          .eps = static_cast<float>(eps)};
}

const RegisterKernel cuda_forward{layer_norm_forward, DeviceKind::cuda,
                                  [](double eps, const Tensor& x, const Tensor& weight, const Tensor& bias,
                                     const Tensor& mean, const Tensor& rstd, const Tensor& y) {
                                    cuda::layer_norm_forward(stream_of(y.device()), y.dtype(),
                                                             forward_of(eps, x, weight, bias, mean, rstd, y));
                                  }};

const RegisterKernel cuda_normalize{layer_norm_normalize, DeviceKind::cuda,
                                    [](const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                       const Tensor& rstd, const Tensor& y) {
                                      cuda::LayerNormForward what = forward_of(0, x, weight, bias, mean, rstd, y);
                                      what.has_statistics = true;
                                      cuda::layer_norm_forward(stream_of(y.device()), y.dtype(), what);
                                    }};

const RegisterKernel cuda_of_codes{layer_norm_of_codes, DeviceKind::cuda,
                                   [](const Operand& x, std::int64_t begin, const Tensor& weight, const Tensor& bias,
                                      const Tensor& mean, const Tensor& rstd, const Tensor& y) {
                                     cuda::layer_norm_of_codes(stream_of(y.device()), y.dtype(),
                                                               forward_of(0, {}, weight, bias, mean, rstd, y),
                                                               cuda::coded_range(x, begin, y));
                                   }};

const RegisterKernel cuda_backward{
    layer_norm_backward, DeviceKind::cuda,
    [](const Operand& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
       const LayerNormGradients& to) {
      const Stream stream = stream_of(dy.device());
      const std::int64_t n = dy.shape().back(), blocks = cuda::summing_blocks(dy.rows(), n);
      const Tensor partial = Tensor::zeros({blocks, 2, n}, DType::f32, dy.device(), Purpose::workspace);
      cuda::for_saved_rows(x, dy.rows(), [&](std::int64_t begin, std::int64_t end, const cuda::SavedValues& values) {
        cuda::layer_norm_backward(stream, dy.dtype(),
                                  {.x = values,
                                   .dy = dy.row_range(begin, end).data<const std::byte>(),
                                   .mean = mean.data<const float>() + begin,
                                   .rstd = rstd.data<const float>() + begin,
                                   .weight = weight.defined() ? weight.data<const float>() : nullptr,
                                   .dx = to.x.defined() ? to.x.row_range(begin, end).raw() : nullptr,
                                   .partial = partial.data<float>(),
                                   .first_row = begin,
                                   .rows = end - begin,
                                   .columns = n,
                                   .blocks = blocks,
                                   .add = to.add_x});
      });
      const auto add_up = [&](const Tensor& sums, std::int64_t first) {
        if (!sums.defined()) return;
        cuda::add_block_sums(stream, {.partial = partial.data<const float>() + first,
                                      .to = sums.data<float>(),
                                      .blocks = blocks,
                                      .stride = 2 * n,
                                      .count = n});
      };
      add_up(to.weight, 0);
      add_up(to.bias, n);
    }};
const RegisterKernel cuda_bias{layer_norm_bias, DeviceKind::cuda,
                               [](const Tensor& dy, const Tensor& to) { sum_repetitions(dy.device(), dy, to); }};

}  // namespace
}  // namespace lacuna
