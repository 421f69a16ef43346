#include "ops/attention/window_attention_cuda.h"

#include "core/backend.h"
#include "ops/attention/window_attention_kernels.h"

namespace lacuna {
namespace {

const float* optional(const Tensor& tensor) { return tensor.defined() ? tensor.data<const float>() : nullptr; }
float* wanted(const Tensor& tensor) { return tensor.defined() ? tensor.data<float>() : nullptr; }

cuda::WindowProblem problem_of(const WindowArguments& a) {
  constexpr std::int64_t most_head_dim = 64;
  expect(
      a.head_dim <= most_head_dim && a.window() <= cuda::most_window_tokens,
      "window_attention on cuda: expected a head dimension of at most {} and windows of at most {} tokens, got {} and "
      "{}",
      most_head_dim, cuda::most_window_tokens, a.head_dim, a.window());
  return {.images = a.images,
          .height = a.height,
          .width = a.width,
          .heads = a.heads,
          .head_dim = a.head_dim,
          .window_height = a.window_height,
          .window_width = a.window_width,
          .shift_down = a.shift_down,
          .shift_right = a.shift_right,
          .pads_first = a.pads_first,
          .scale = static_cast<float>(a.scale),
          .qkv = a.qkv.data<const std::byte>(),
          .table = a.table.data<const float>(),
          .pad = optional(a.pad),
          .logit_scale = optional(a.logit_scale),
          .first = a.first,
          .parts = a.parts};
}

const RegisterKernel cuda_forward{
    window_attention_forward, DeviceKind::cuda, [](const WindowArguments& a, const Tensor& y, const Tensor&) {
      cuda::window_attention_forward(stream_of(y.device()), y.dtype(), problem_of(a), y.raw());
    }};

const RegisterKernel cuda_backward{
    window_attention_backward, DeviceKind::cuda,
    [](const WindowArguments& a, const Tensor& dy, const WindowGradients& to, const Tensor& statistics) {
      cuda::window_attention_backward(stream_of(dy.device()), dy.dtype(), problem_of(a),
                                      {.dy = dy.data<const std::byte>(),
                                       .qkv = to.qkv.defined() ? to.qkv.raw() : nullptr,
                                       .table_sums = wanted(to.table_sums),
                                       .pad_sums = wanted(to.pad_sums),
                                       .scale_sums = wanted(to.scale_sums),
                                       .statistics = statistics.data<float>()});
    }};

const RegisterKernel cuda_sum_table{
    window_attention_sum_table, DeviceKind::cuda, [](const Tensor& table_sums, const Tensor& table_gradient) {
      const Shape& shape = table_sums.shape();
      cuda::window_attention_sum_table(stream_of(table_gradient.device()), table_sums.data<const float>(), shape[0],
                                       shape[1], shape[2], table_gradient.data<float>());
    }};

}  // namespace
}  // namespace lacuna
