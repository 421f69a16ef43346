#include "ops/attention/sequence_attention.h"

#include "core/parallel.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/causal_attention.h"
#include "ops/operand.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lacuna {
namespace {

const RegisterOp<SequenceAttention> sequence_attention;

AttentionArguments arguments_of(const SequenceAttention& op, const Shape& q, const Shape& k, const Shape& v) {
  expect(op.sequences != nullptr && op.heads > 0, "sequence_attention: expected sequences and heads");
  const Sequences& sequences = *op.sequences;
  const std::int64_t n = sequences.count(), tokens = sequences.rows();
  const std::int64_t asked = op.queries == 0 ? tokens : n * op.queries;
  expect(k == v && k.rank() == 3 && k[0] == 1 && k[1] == tokens && k[2] % op.heads == 0 && q == Shape({1, asked, k[2]}),
         "sequence_attention: expected q [1, {}, {} heads · d] and k, v [1, {}, {} heads · d], got {}, {} and {}",
         asked, op.heads, tokens, op.heads, q, k, v);
  expect(op.dropout >= 0 && op.dropout < 1, "sequence_attention: expected a dropout rate in [0, 1), got {}",
         op.dropout);
  const std::int64_t longest = sequences.longest();
  expect(op.dropout == 0 || op.positions >= longest,
         "sequence_attention: expected at least the {} positions of the longest sequence, got {}", longest,
         op.positions);
  for (std::int64_t i = 0; op.queries > 1 && i < n; ++i)
    expect(op.queries <= sequences.length(i), "sequence_attention: {} queries of sequence {}, which has {} tokens",
           op.queries, i, sequences.length(i));
  const std::int64_t head_dim = k[2] / op.heads, queries = op.queries == 0 ? longest : op.queries;
  return {.samples = n,
          .heads = op.heads,
          .queries = queries,
          .keys = longest,
          .head_dim = head_dim,
          .query_rows = queries,
          .scale = op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(head_dim)),
          .dropout = op.dropout,
          .stream = op.stream,
          .sequences = op.sequences.get(),
          .every_query = op.queries == 0,
          .draw_rows = op.positions,
          .draw_columns = op.positions};
}

CausalAttention within_window(const SequenceAttention& op) {
  expect(op.queries == 0, "sequence_attention: expected all tokens as queries of a window, got `queries` {}",
         op.queries);
  return {.heads = op.heads,
          .kv_heads = op.heads,
          .sequences = op.sequences,
          .scale = op.scale,
          .window = op.window + 1,
          .ahead = op.window,
          .dropout = op.dropout,
          .stream = op.stream,
          .positions = op.positions};
}

Tensor workspace_for(std::int64_t count, DType dtype, Device device) {
  return Tensor::empty({threads(), count}, compute_type(dtype), device, Purpose::workspace);
}

/// Ends of blocks of samples whose keys are decoded at a time: of about `rows` rows, but a head for each thread.
std::vector<std::int64_t> blocks_of(const SequenceAttention& op, std::int64_t rows) {
  const Sequences& sequences = *op.sequences;
  const std::int64_t least = (threads() + op.heads - 1) / op.heads;  // samples
  std::vector<std::int64_t> ends;
  for (std::int64_t first = 0; first < sequences.count();) {
    std::int64_t last = std::min(sequences.count(), first + least);
    while (last < sequences.count() && sequences.end(last) - sequences.begin(first) <= rows) ++last;
    ends.push_back(first = last);
  }
  return ends;
}

}  // namespace

std::int64_t SequenceAttention::macs(std::span<const Shape> inputs, const Shape& y) const {
  if (window != 0) return within_window(*this).macs(inputs, y);
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < sequences->count(); ++i)
    pairs += (queries == 0 ? sequences->length(i) : queries) * sequences->length(i);
  return 2 * pairs * inputs[k].back();  // q·k, and p·v
}

Tensor SequenceAttention::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  if (window != 0) return within_window(*this).forward(inputs, extra_outputs);
  const Tensor& query = inputs[q];
  AttentionArguments a = arguments_of(*this, query.shape(), inputs[k].shape(), inputs[v].shape());
  expect(inputs[k].dtype() == query.dtype() && inputs[v].dtype() == query.dtype(),
         "sequence_attention: expected q, k and v of one type, got {}, {} and {}", name_of(query.dtype()),
         name_of(inputs[k].dtype()), name_of(inputs[v].dtype()));
  a.q = {query};
  a.k = {inputs[k]};
  a.v = {inputs[v]};
  Tensor y = empty_like(query);
  Tensor sums;
  const Tensor workspace =
      workspace_for(attention_forward_workspace(a, query.dtype(), query.device(), sums), query.dtype(), query.device());
  attention_forward(query.device(), a, y, sums, workspace);
  if (sums.defined()) extra_outputs.push_back(std::move(sums));
  return y;
}

void SequenceAttention::backward(const Tensor& dy, const Saved<SequenceAttention>& saved, Grads& grads) const {
  const Operand asked = saved.get<input(q)>(), keys = saved.get<input(k)>();
  const bool reads_v = grads.wanted(q) || grads.wanted(k);
  const Operand values = reads_v ? saved.get<input(v)>() : Operand();
  if (window != 0) return causal_gradients(within_window(*this), dy, {.q = asked, .k = keys, .v = values}, grads);
  AttentionArguments whole = arguments_of(*this, asked.shape(), keys.shape(), keys.shape());
  whole.y = kept_or_none<output>(saved);
  whole.log_sums = kept_or_none<extra_output(log_sums)>(saved);
  for (const int i : {q, k, v})
    if (grads.wanted(i)) grads[i] = Tensor::empty(i == q ? asked.shape() : keys.shape(), dy.dtype(), dy.device());
  std::int64_t decoded = keys.shape().rows();  // at a time: all, unless an operand is not kept
  for (const Operand* const one : {&asked, &keys, &values})
    if (one->defined() && one->as<KeptForm>() == nullptr) decoded = std::min(decoded, one->block_rows());
  const auto query_row = [&](std::int64_t sample) {
    return queries == 0 ? (sample < sequences->count() ? sequences->begin(sample) : sequences->rows())
                        : sample * queries;
  };
  std::int64_t first = 0;
  for (const std::int64_t last : blocks_of(*this, decoded)) {
    AttentionArguments a = whole;
    a.samples = last - first;
    a.first = first;
    const std::int64_t key_begin = sequences->begin(first), key_end = sequences->end(last - 1);
    const std::int64_t query_begin = query_row(first), query_end = query_row(last);
    a.q = {asked.rows(query_begin, query_end)};
    a.k = {keys.rows(key_begin, key_end)};
    if (reads_v) a.v = {values.rows(key_begin, key_end)};
    if (whole.y.defined()) a.y = whole.y.row_range(query_begin, query_end);
    if (whole.log_sums.defined()) a.log_sums = whole.log_sums.leading(first, last);
    const auto part = [&](int i, std::int64_t begin, std::int64_t end) -> TokenColumns {
      if (!grads.wanted(i)) return {};
      return {grads[i].row_range(begin, end)};
    };
    const AttentionGradients to{
        .q = part(q, query_begin, query_end), .k = part(k, key_begin, key_end), .v = part(v, key_begin, key_end)};
    const Tensor workspace =
        workspace_for(attention_backward_workspace(a, dy.dtype(), dy.device()), dy.dtype(), dy.device());
    attention_backward(dy.device(), a, dy.row_range(query_begin, query_end), to, workspace);
    first = last;
  }
}

}  // namespace lacuna
