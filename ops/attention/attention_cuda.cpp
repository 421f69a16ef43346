// Attention on cuda: by cuDNN in bf16 and f16 where it has the form (ops/attention/dense_cuda.h); by kernels of our own
// for all the rest.
#include "ops/attention/attention_cuda.h"

#include "core/backend.h"
#include "ops/attention/dense_cuda.h"
#include "ops/cuda/sequences_on_device.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace lacuna {
namespace {

constexpr std::int64_t most_head_dim = 128;

/// The samples' sequences; nothing: they have equally many tokens.
std::optional<cuda::SequencesOnDevice> sequences_of(const AttentionArguments& a, Device device) {
  if (a.sequences == nullptr) return {};
  return std::optional<cuda::SequencesOnDevice>(std::in_place, *a.sequences, a.first, a.first + a.samples, device);
}
const std::int64_t* offsets_of(const std::optional<cuda::SequencesOnDevice>& sequences) {
  return sequences ? sequences->rows().offsets : nullptr;
}

cuda::TokenRows rows_of(const TokenColumns& columns, std::int64_t rows_per_sample, const std::int64_t* offsets) {
  if (!columns.tokens.defined()) return {};
  const Tensor& tokens = columns.tokens;
  return {tokens.raw() + columns.first * size_of(tokens.dtype()), tokens.shape().back(), rows_per_sample, offsets};
}

cuda::AttentionProblem problem_of(const AttentionArguments& a, const std::optional<cuda::SequencesOnDevice>& sequences) {
  expect(a.head_dim <= most_head_dim, "attention on cuda: expected a head dimension of at most {}, got {}",
         most_head_dim, a.head_dim);
  const std::int64_t* const of_keys = offsets_of(sequences);
  const std::int64_t* const of_queries = a.every_query ? of_keys : nullptr;
  const std::int64_t key_rows = of_keys == nullptr ? a.keys : sequences->most_rows();
  cuda::AttentionProblem p{.samples = a.samples,
                           .heads = a.heads,
                           .head_dim = a.head_dim,
                           .queries = a.queries,
                           .keys = a.keys,
                           .query_tiles = cuda::tiles_of(of_queries == nullptr ? a.queries : key_rows),
                           .key_tiles = cuda::tiles_of(key_rows),
                           .scale = static_cast<float>(a.scale),
                           .q = rows_of(a.q, a.query_rows, of_queries),
                           .k = rows_of(a.k, a.keys, of_keys),
                           .v = rows_of(a.v, a.keys, of_keys),
                           .first = a.first,
                           .stream = a.stream,
                           .draw_rows = a.draw_rows,
                           .draw_columns = a.draw_columns};
  if (a.bias.defined()) {
    const Shape& shape = a.bias.shape();
    p.bias = a.bias.data<const std::byte>();
    p.bias_windows = shape[0];
    p.bias_row = shape[2] == 1 ? 0 : shape[3];
    p.bias_head = shape[1] == 1 ? 0 : shape[2] * shape[3];
    p.bias_window = shape[1] * shape[2] * shape[3];
  }
  if (a.key_lengths.defined()) p.key_lengths = a.key_lengths.data<const std::int64_t>() + a.first;
  if (sequences) p.key_lengths = sequences->rows().lengths;
  if (a.dropout > 0) {
    p.dropped_below = static_cast<std::uint32_t>(std::min(std::ldexp(a.dropout, 32), 4294967295.0));
    p.kept_scale = static_cast<float>(1 / (1 - a.dropout));
  }
  return p;
}

const RegisterKernel cuda_forward{attention_forward, DeviceKind::cuda,
                                  [](const AttentionArguments& a, const Tensor& y, Tensor& log_sums, const Tensor&) {
                                    if (const auto what = dense_form(a); what.has_value())
                                      log_sums = forward_by_cudnn(*what, y);
                                    if (log_sums.defined()) return;
                                    const auto sequences = sequences_of(a, y.device());
                                    const cuda::AttentionProblem p = problem_of(a, sequences);
                                    cuda::attention_forward(
                                        stream_of(y.device()), y.dtype(), p,
                                        rows_of({y}, a.queries, a.every_query ? offsets_of(sequences) : nullptr));
                                  }};

const RegisterKernel cuda_backward{
    attention_backward, DeviceKind::cuda,
    [](const AttentionArguments& a, const Tensor& dy, const AttentionGradients& to, const Tensor&) {
      if (const auto what = dense_form(a); what.has_value() && backward_by_cudnn(*what, dy, to.q, to.k, to.v)) return;
      const auto sequences = sequences_of(a, dy.device());
      const cuda::AttentionProblem p = problem_of(a, sequences);
      const std::int64_t *const of_keys = p.k.offsets, *const of_queries = p.q.offsets;
      const Tensor statistics =
          Tensor::empty({2, a.samples * a.heads, a.queries}, DType::f32, dy.device(), Purpose::workspace);
      cuda::attention_backward(stream_of(dy.device()), dy.dtype(), p,
                               {.dy = rows_of({dy}, a.queries, of_queries),
                                .dq = rows_of(to.q, a.query_rows, of_queries),
                                .dk = rows_of(to.k, a.keys, of_keys),
                                .dv = rows_of(to.v, a.keys, of_keys),
                                .dq_rows = of_queries == nullptr ? a.query_rows : sequences->most_rows(),
                                .bias_sums = to.bias_sums.defined() ? to.bias_sums.data<float>() : nullptr,
                                .statistics = statistics.data<float>()});
    }};

const RegisterKernel cuda_sum_bias{
    attention_sum_bias, DeviceKind::cuda, [](const Tensor& bias_sums, const Tensor& bias_gradient) {
      cuda::attention_sum_bias(stream_of(bias_gradient.device()), bias_gradient.dtype(), bias_sums.data<const float>(),
                               bias_sums.shape()[0], bias_gradient.count(), bias_gradient.raw());
    }};

}  // namespace
}  // namespace lacuna
