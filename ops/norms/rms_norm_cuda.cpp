#include "ops/norms/rms_norm_cuda.h"

#include "ops/cuda/block_sums.h"
#include "ops/cuda/operand.h"
#include "ops/norms/rms_norm_kernels.h"

namespace lacuna {
namespace {

/// `eps` null: rstd is known. `x` undefined: codes.
cuda::RmsNormForward forward_of(const double* eps, double offset, const Tensor& x, const Tensor& weight,
                                const Tensor& rstd, const Tensor& y) {
  return {.x = x.defined() ? x.data<const std::byte>() : nullptr,
          .weight = weight.data<const float>(),
          .rstd = rstd.data<float>(),
          .y = y.raw(),
          .rows = rstd.count(),
          .columns = weight.count(),
          .eps = eps == nullptr ? 0 : static_cast<float>(*eps),
          .offset = static_cast<float>(offset),
          .has_statistics = eps == nullptr};
}

const RegisterKernel cuda_rms_forward{
    rms_norm_forward, DeviceKind::cuda,
    [](double eps, double offset, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& y) {
      cuda::rms_norm_forward(stream_of(y.device()), y.dtype(), forward_of(&eps, offset, x, weight, rstd, y));
    }};
const RegisterKernel cuda_rms_normalize{
    rms_norm_normalize, DeviceKind::cuda,
    [](double offset, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& y) {
      cuda::rms_norm_forward(stream_of(y.device()), y.dtype(), forward_of(nullptr, offset, x, weight, rstd, y));
    }};
const RegisterKernel cuda_rms_of_codes{
    rms_norm_of_codes, DeviceKind::cuda,
    [](double offset, const Operand& x, std::int64_t begin, const Tensor& weight, const Tensor& rstd, const Tensor& y) {
      cuda::rms_norm_of_codes(stream_of(y.device()), y.dtype(), forward_of(nullptr, offset, {}, weight, rstd, y),
                              cuda::coded_range(x, begin, y));
    }};
const RegisterKernel cuda_rms_backward{
    rms_norm_backward, DeviceKind::cuda,
    [](double offset, const Operand& x, const Tensor& weight, const Tensor& rstd, const Tensor& dy,
       const RmsNormGradients& to) {
      const Stream stream = stream_of(dy.device());
      const std::int64_t heads = rstd.shape().back(), n = dy.shape().back() / heads;
      const std::int64_t blocks = cuda::summing_blocks(rstd.count(), n);
      const Tensor partial =
          to.weight.defined() ? Tensor::zeros({blocks, n}, DType::f32, dy.device(), Purpose::workspace) : Tensor();
      const auto backward = [&](std::int64_t begin, std::int64_t end, const cuda::SavedValues& values) {
        cuda::rms_norm_backward(stream, dy.dtype(),
                                {.x = values,
                                 .dy = dy.row_range(begin, end).data<const std::byte>(),
                                 .rstd = rstd.data<const float>() + begin * heads,
                                 .weight = weight.defined() ? weight.data<const float>() : nullptr,
                                 .dx = to.x.defined() ? to.x.row_range(begin, end).raw() : nullptr,
                                 .partial = partial.defined() ? partial.data<float>() : nullptr,
                                 .first_row = begin * heads,
                                 .rows = (end - begin) * heads,
                                 .columns = n,
                                 .blocks = blocks,
                                 .offset = static_cast<float>(offset),
                                 .add = to.add_x});
      };
      if (n % 8 == 0)
        cuda::for_saved_values(x, dy.rows(), backward);
      else
        cuda::for_decoded_values(x, dy.rows(), backward);
      if (partial.defined())
        cuda::add_block_sums(stream, {.partial = partial.data<const float>(),
                                      .to = to.weight.data<float>(),
                                      .blocks = blocks,
                                      .stride = n,
                                      .count = n});
    }};

}  // namespace
}  // namespace lacuna
