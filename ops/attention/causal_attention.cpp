#include "ops/attention/causal_attention.h"

#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/attention/causal_kernels.h"
#include "ops/operand.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<CausalAttention> causal_attention;

/// How many tasks the heads that share one of k are: enough for the threads to have about equal work.
std::int64_t parts_for(std::int64_t sequences, const CausalAttention& op, Device device) {
  if (computes_on_cuda(device)) return 1;
  const std::int64_t tasks = sequences * op.kv_heads, group = op.heads / op.kv_heads, count = threads();
  std::int64_t parts = 1;
  while (parts < group && tasks * parts < 4 * count && tasks * parts % count != 0) ++parts;
  return parts;
}

CausalArguments causal_arguments(const CausalAttention& op, const Shape& q, const Shape& k, const Shape& v,
                                 Device device) {
  expect(op.sequences != nullptr && op.kv_heads > 0 && op.heads > 0 && op.heads % op.kv_heads == 0,
         "causal_attention: expected sequences, and heads that are a multiple of kv_heads, got {} and {}", op.heads,
         op.kv_heads);
  const Sequences& keys = *op.sequences;
  const Sequences& queries = op.queries == nullptr ? keys : *op.queries;
  expect(queries.count() == keys.count(), "causal_attention: expected queries of {} sequences, got {}", keys.count(),
         queries.count());
  for (std::int64_t i = 0; i < keys.count(); ++i)
    expect(queries.length(i) <= keys.length(i), "causal_attention: sequence {} has {} queries for {} keys", i,
           queries.length(i), keys.length(i));
  const std::int64_t head_dim = k.back() / op.kv_heads;
  expect(k == v && k == Shape({1, keys.rows(), op.kv_heads * head_dim}) &&
             q == Shape({1, queries.rows(), op.heads * head_dim}),
         "causal_attention: expected q [1, {}, {} heads · d] and k, v [1, {}, {} heads · d], got {}, {} and {}",
         queries.rows(), op.heads, keys.rows(), op.kv_heads, q, k, v);
  expect(op.dropout >= 0 && op.dropout < 1, "causal_attention: expected a dropout rate in [0, 1), got {}", op.dropout);
  expect(op.dropout == 0 || op.positions >= keys.longest(),
         "causal_attention: expected at least the {} positions of the longest sequence, got {}", keys.longest(),
         op.positions);
  expect(op.window >= 0 && op.ahead >= 0 && op.soft_cap >= 0,
         "causal_attention: expected a window, keys ahead and a soft cap from 0, got {}, {} and {}", op.window,
         op.ahead, op.soft_cap);
  expect(op.alibi.empty() || static_cast<std::int64_t>(op.alibi.size()) == op.heads,
         "causal_attention: expected a slope for each of {} heads, got {}", op.heads, op.alibi.size());
  return {.heads = op.heads,
          .kv_heads = op.kv_heads,
          .head_dim = head_dim,
          .scale = op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(head_dim)),
          .window = op.window,
          .ahead = op.ahead,
          .soft_cap = op.soft_cap,
          .slopes = op.alibi,
          .rounds_alibi = op.rounds_alibi,
          .dropout = op.dropout,
          .stream = op.stream,
          .positions = op.positions,
          .keys = keys,
          .queries = queries,
          .parts = parts_for(keys.count(), op, device)};
}

Tensor thread_memory(std::int64_t count, DType dtype, Device device) {
  return Tensor::empty({threads(), count}, compute_type(dtype), device, Purpose::workspace);
}

/// The end of a block of sequences from `first` on whose rows are decoded at a time: about `rows` of them, but enough
/// heads for all threads.
std::int64_t end_of_block(const CausalArguments& a, std::int64_t first, std::int64_t rows) {
  const std::int64_t tasks = a.kv_heads * a.parts, count = a.keys.count();
  std::int64_t last = std::min(count, first + (threads() + tasks - 1) / tasks);
  while (last < count && a.keys.end(last) - a.keys.begin(first) <= rows) ++last;
  return last;
}

}  // namespace

std::int64_t CausalAttention::macs(std::span<const Shape> inputs, const Shape&) const {
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < sequences->count(); ++i) {
    const std::int64_t keys = sequences->length(i), asked = (queries == nullptr ? *sequences : *queries).length(i);
    for (std::int64_t query = keys - asked; query < keys; ++query)
      pairs += std::min(query + 1 + ahead, keys) - (window == 0 ? 0 : std::max<std::int64_t>(0, query + 1 - window));
  }
  return 2 * pairs * inputs[q].back();  // q·k, and p·v
}

Tensor CausalAttention::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor& query = inputs[q];
  CausalArguments a = causal_arguments(*this, query.shape(), inputs[k].shape(), inputs[v].shape(), query.device());
  expect(inputs[k].dtype() == query.dtype() && inputs[v].dtype() == query.dtype(),
         "causal_attention: expected q, k and v of one type, got {}, {} and {}", name_of(query.dtype()),
         name_of(inputs[k].dtype()), name_of(inputs[v].dtype()));
  a.q = query;
  a.k = inputs[k];
  a.v = inputs[v];
  Tensor y = empty_like(query);
  Tensor sums;
  const Tensor workspace =
      thread_memory(causal_forward_workspace(a, query.dtype(), query.device(), sums), query.dtype(), query.device());
  causal_forward(query.device(), a, y, sums, workspace);
  if (sums.defined()) extra_outputs.push_back(std::move(sums));
  return y;
}

void CausalAttention::backward(const Tensor& dy, const Saved<CausalAttention>& saved, Grads& grads) const {
  const bool reads_v = grads.wanted(q) || grads.wanted(k);
  causal_gradients(*this, dy,
                   {.q = saved.get<input(q)>(),
                    .k = saved.get<input(k)>(),
                    .v = reads_v ? saved.get<input(v)>() : Operand(),
                    .y = kept_or_none<output>(saved),
                    .log_sums = kept_or_none<extra_output(log_sums)>(saved)},
                   grads);
}

void causal_gradients(const CausalAttention& op, const Tensor& dy, const CausalSaved& saved, Grads& grads) {
  using enum CausalAttention::Input;
  const Operand &asked = saved.q, &keys = saved.k, &values = saved.v;
  const bool reads_v = grads.wanted(q) || grads.wanted(k);
  CausalArguments a = causal_arguments(op, asked.shape(), keys.shape(), keys.shape(), dy.device());
  for (const int i : {q, k, v})
    if (grads.wanted(i)) grads[i] = Tensor::empty(i == q ? asked.shape() : keys.shape(), dy.dtype(), dy.device());
  a.y = saved.y;
  a.log_sums = saved.log_sums;
  std::int64_t decoded = std::min(asked.block_rows(), keys.block_rows());
  if (reads_v) decoded = std::min(decoded, values.block_rows());
  for (std::int64_t first = 0; first < a.keys.count(); first = a.last) {
    a.first = first;
    a.last = end_of_block(a, first, decoded);
    const Range of_keys{a.keys.begin(first), a.keys.end(a.last - 1)};
    const Range of_queries{a.queries.begin(first), a.queries.end(a.last - 1)};
    a.q = asked.rows(of_queries.begin, of_queries.end);
    a.k = keys.rows(of_keys.begin, of_keys.end);
    if (reads_v) a.v = values.rows(of_keys.begin, of_keys.end);
    if (saved.y.defined()) a.y = saved.y.row_range(of_queries.begin, of_queries.end);
    if (saved.log_sums.defined()) a.log_sums = saved.log_sums.leading(first, a.last);
    const auto rows = [&](int i, Range range) {
      return grads.wanted(i) ? grads[i].row_range(range.begin, range.end) : Tensor();
    };
    CausalGradients to{.q = rows(q, of_queries), .k = rows(k, of_keys), .v = rows(v, of_keys)};
    if (a.parts > 1 && (to.k.defined() || to.v.defined()))
      to.partial = Tensor::empty({2, a.parts, of_keys.end - of_keys.begin, a.kv_heads * a.head_dim},
                                 compute_type(dy.dtype()), dy.device(), Purpose::workspace);
    const Tensor workspace =
        thread_memory(causal_backward_workspace(a, dy.dtype(), dy.device()), dy.dtype(), dy.device());
    causal_backward(dy.device(), a, dy.row_range(of_queries.begin, of_queries.end), to, workspace);
  }
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t n = 1;
  while (2 * n <= heads) n *= 2;
  std::vector<double> slopes;
  const auto add = [&](double exponent) { slopes.push_back(std::pow(2.0, exponent / static_cast<double>(n))); };
  for (std::int64_t i = 1; i <= n; ++i) add(-8.0 * static_cast<double>(i));
  for (std::int64_t i = 1; i <= 2 * (heads - n); i += 2) add(-4.0 * static_cast<double>(i));
  return slopes;
}

}  // namespace lacuna
