#include "ops/attention/causal_cuda.h"

#include "core/backend.h"
#include "core/error.h"
#include "ops/attention/dense_cuda.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace lacuna {
namespace {

/// The sequences of a call, on the device. Their offsets count from any row: kernels use differences alone.
struct CausalRowsOnDevice {
  Tensor offsets, lengths;        // i64 [n + 1], [n]
  std::int64_t longest_rows = 0;  // padding included

  CausalRowsOnDevice(const Sequences& sequences, std::int64_t first, std::int64_t last, Device device)
      : offsets(Tensor::from(std::span(sequences.offsets() + first, static_cast<std::size_t>(last - first + 1)),
                             {last - first + 1}, device)),
        lengths(Tensor::from(std::span(sequences.lengths() + first, static_cast<std::size_t>(last - first)),
                             {last - first}, device)) {
    for (std::int64_t i = first; i < last; ++i)
      longest_rows = std::max(longest_rows, sequences.end(i) - sequences.begin(i));
  }
  cuda::SequenceRows rows() const {
    return {offsets.data<const std::int64_t>(), lengths.data<const std::int64_t>(), lengths.count()};
  }
  cuda::TokenRows of(const Tensor& tokens) const {
    if (!tokens.defined()) return {};
    return {tokens.raw(), tokens.shape().back(), 0, offsets.data<const std::int64_t>()};
  }
};

struct CausalOnDevice {
  CausalRowsOnDevice keys, queries;
  Tensor slopes{};  // f32 [heads]

  CausalOnDevice(const CausalArguments& a, Device device)
      : keys(a.keys, a.first, a.last, device), queries(a.queries, a.first, a.last, device) {
    constexpr std::int64_t most = 256;
    expect(a.head_dim <= most, "causal_attention on cuda: expected a head dimension of at most {}, got {}", most,
           a.head_dim);
    if (!a.slopes.empty()) slopes = Tensor::from(std::span<const double>(a.slopes), {a.heads}, DType::f32, device);
  }
  cuda::CausalProblem problem(const CausalArguments& a) const {
    return {.heads = a.heads,
            .kv_heads = a.kv_heads,
            .head_dim = a.head_dim,
            .keys = keys.rows(),
            .queries = queries.rows(),
            .longest = a.queries.longest(),
            .query_tiles = cuda::tiles_of(queries.longest_rows),
            .key_tiles = cuda::tiles_of(keys.longest_rows),
            .scale = static_cast<float>(a.scale),
            .soft_cap = static_cast<float>(a.soft_cap),
            .window = a.window,
            .ahead = a.ahead,
            .slopes = slopes.defined() ? slopes.data<const float>() : nullptr,
            .rounds_alibi = a.rounds_alibi,
            .q = queries.of(a.q),
            .k = keys.of(a.k),
            .v = keys.of(a.v),
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
      cuda::causal_forward(stream_of(y.device()), y.dtype(), there.problem(a), there.queries.of(y));
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
                            {.dy = there.queries.of(dy),
                             .dq = there.queries.of(to.q),
                             .dk = there.keys.of(to.k),
                             .dv = there.keys.of(to.v),
                             .statistics = statistics.data<float>()});
    }};

}  // namespace
}  // namespace lacuna
