#include "ops/attention/causal_cuda.h"

#include "core/backend.h"
#include "core/error.h"
#include "ops/attention/dense_cuda.h"
#include "ops/cuda/sequences_on_device.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace lacuna {
namespace {

/// The rows of the call's sequences. Offsets count from any row: kernels use differences alone.
cuda::TokenRows rows_of(const cuda::SequencesOnDevice& sequences, const Tensor& tokens) {
  if (!tokens.defined()) return {};
  return {tokens.raw(), tokens.shape().back(), 0, sequences.rows().offsets};
}

struct CausalOnDevice {
  cuda::SequencesOnDevice keys, queries;
  Tensor slopes{};  // f32 [heads]

  CausalOnDevice(const CausalArguments& a, Device device)
      : keys(a.keys, a.first, a.last, device), queries(a.queries, a.first, a.last, device) {
    constexpr std::int64_t most = 256;
    expect(a.head_dim <= most, "causal_attention on cuda: expected a head dimension of at most {}, got {}", most,
           a.head_dim);
    if (!a.slopes.empty()) slopes = Tensor::from(std::span<const double>(a.slopes), {a.heads}, DType::f32, device);
  }
  cuda::CausalProblem problem(const CausalArguments& a) const {
    constexpr std::int64_t most_keys = std::int64_t{1} << 30;  // of a sequence: kernels count them in int
    return {.heads = a.heads,
            .kv_heads = a.kv_heads,
            .head_dim = a.head_dim,
            .keys = keys.rows(),
            .queries = queries.rows(),
            .longest = a.queries.longest(),
            .query_tiles = cuda::tiles_of(queries.most_rows()),
            .key_tiles = cuda::tiles_of(keys.most_rows()),
            .scale = static_cast<float>(a.scale),
            .soft_cap = static_cast<float>(a.soft_cap),
            .window = std::min(a.window, most_keys),
            .ahead = std::min(a.ahead, most_keys),
            .slopes = slopes.defined() ? slopes.data<const float>() : nullptr,
            .rounds_alibi = a.rounds_alibi,
            .q = rows_of(queries, a.q),
            .k = rows_of(keys, a.k),
            .v = rows_of(keys, a.v),
            .first = a.first,
            .dropped_below = static_cast<std::uint32_t>(std::min(std::ldexp(a.dropout, 32), 4294967295.0)),
            .kept_scale = static_cast<float>(1 / (1 - a.dropout)),
            .stream = a.stream,
            .positions = a.positions};
  }
};

const RegisterKernel cuda_causal_forward{
    causal_forward, DeviceKind::cuda, [](const CausalArguments& a, const Tensor& y, Tensor& log_sums, const Tensor&) {
      if (const auto what = dense_form(a); what.has_value()) log_sums = forward_by_cudnn(*what, y);
      if (log_sums.defined()) return;
      const CausalOnDevice there(a, y.device());
      cuda::causal_forward(stream_of(y.device()), y.dtype(), there.problem(a), rows_of(there.queries, y));
    }};

const RegisterKernel cuda_causal_backward{
    causal_backward, DeviceKind::cuda,
    [](const CausalArguments& a, const Tensor& dy, const CausalGradients& to, const Tensor&) {
      if (const auto what = dense_form(a); what.has_value() && backward_by_cudnn(*what, dy, {to.q}, {to.k}, {to.v}))
        return;
      const CausalOnDevice there(a, dy.device());
      const Tensor statistics = Tensor::empty({2, (a.last - a.first) * a.heads, a.queries.longest()}, DType::f32,
                                              dy.device(), Purpose::workspace);
      cuda::causal_backward(stream_of(dy.device()), dy.dtype(), there.problem(a),
                            {.dy = rows_of(there.queries, dy),
                             .dq = rows_of(there.queries, to.q),
                             .dk = rows_of(there.keys, to.k),
                             .dv = rows_of(there.keys, to.v),
                             .statistics = statistics.data<float>()});
    }};

}  // namespace
}  // namespace lacuna
