#include "ops/attention/attention.h"

#include "core/parallel.h"
#include "ops/attention/attention_kernels.h"
#include "ops/operand.h"

#include <cmath>
#include <numeric>

namespace lacuna {
namespace {

const RegisterOp<Attention> attention;
const RegisterOp<CrossAttention> cross_attention;

/// Checks what both ops may be given beside q, k and v of `dtype`, and adds it to `a`, which has all extents.
void set_options(AttentionArguments& a, std::string_view name, DType dtype, double scale, double dropout,
                 const Tensor& bias, const Tensor& key_lengths) {
  expect(a.queries > 0 && a.keys > 0, "{}: expected at least one query and one key, got {} and {}", name, a.queries,
         a.keys);
  expect(dropout >= 0 && dropout < 1, "{}: expected a dropout rate in [0, 1), got {}", name, dropout);
  if (bias.defined()) {
    const Shape& shape = bias.shape();
    expect(shape.rank() == 4 && shape[0] > 0 && a.samples % shape[0] == 0 && (shape[1] == 1 || shape[1] == a.heads) &&
               (shape[2] == 1 || shape[2] == a.queries) && shape[3] == a.keys,
           "{}: expected bias [W, {} or 1, {} or 1, {}] where W divides the batch of {}, got {}", name, a.heads,
           a.queries, a.keys, a.samples, shape);
    expect(bias.dtype() == dtype, "{}: expected bias in {} as q, k and v are, got {}", name, name_of(dtype),
           name_of(bias.dtype()));
  }
  if (key_lengths.defined())
    expect(key_lengths.dtype() == DType::i64 && key_lengths.shape() == Shape{a.samples},
           "{}: expected key_lengths i64 [{}], got {} {}", name, a.samples, name_of(key_lengths.dtype()),
           key_lengths.shape());
  a.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(a.head_dim));
  a.dropout = dropout;
  a.bias = bias;
  a.key_lengths = key_lengths;
  a.draw_rows = a.queries;
  a.draw_columns = a.keys;
}

/// Workspace of all threads, [threads, count].
Tensor workspace_for(std::int64_t count, DType dtype, Device device) {
  return Tensor::empty({threads(), count}, dtype == DType::f64 ? DType::f64 : DType::f32, device, Purpose::workspace);
}

/// Sets log_sums where backward can use them.
Tensor run_forward(const AttentionArguments& a, DType dtype, Device device, Tensor& log_sums) {
  Tensor y = Tensor::empty({a.samples, a.queries, a.heads * a.head_dim}, dtype, device);
  const Tensor workspace = workspace_for(attention_forward_workspace(a, dtype, device, log_sums), dtype, device);
  attention_forward(device, a, y, log_sums, workspace);
  return y;
}

/// Runs backward over blocks of samples; q, k and v are decoded for `decoded` samples at a time. `set_rows(a, first,
/// last)` sets the columns of q, k and v of samples [first, last) in `a`, `gradients(first, last)` returns those of
/// their gradients.
template <class SetRows, class GradientsOf>
void run_backward(const AttentionArguments& whole, const Tensor& dy, std::int64_t decoded, const Tensor& bias_sums,
                  const SetRows& set_rows, const GradientsOf& gradients) {
  // As many samples as are decoded at a time, but at least a head for each thread. If that is not the whole batch, the
  // heads of a block divide evenly among the threads if enough samples are decoded.
  const std::int64_t even = threads() / std::gcd<std::int64_t>(threads(), whole.heads);  // samples
  const std::int64_t block = decoded < whole.samples && decoded >= even
                                 ? decoded / even * even
                                 : std::max(decoded, (threads() + whole.heads - 1) / whole.heads);
  for (std::int64_t first = 0; first < whole.samples; first += block) {
    const std::int64_t last = std::min(whole.samples, first + block);
    AttentionArguments a = whole;
    a.samples = last - first;
    a.first = first;
    if (whole.y.defined()) a.y = whole.y.row_range(first * a.queries, last * a.queries);
    if (whole.log_sums.defined()) a.log_sums = whole.log_sums.leading(first, last);
    set_rows(a, first, last);
    AttentionGradients to = gradients(first, last);
    to.bias_sums = bias_sums;
    const Tensor workspace =
        workspace_for(attention_backward_workspace(a, dy.dtype(), dy.device()), dy.dtype(), dy.device());
    attention_backward(dy.device(), a, dy.row_range(first * a.queries, last * a.queries), to, workspace);
  }
}

/// Zeros [parts, ...shape of bias] in which threads sum the gradient of bias; undefined if it is not wanted. There are
/// enough parts for every thread to have samples of its own, and at most as many as samples share a bias.
Tensor bias_sums_for(const AttentionArguments& a, bool wanted) {
  if (!wanted) return {};
  const Shape& shape = a.bias.shape();
  const std::int64_t matrices = shape[0] * shape[1], all = threads();
  const std::int64_t parts = std::min(a.samples / shape[0], matrices >= 4 * all ? 1 : all / std::gcd(all, matrices));
  return Tensor::zeros({std::max<std::int64_t>(parts, 1), shape[0], shape[1], shape[2], shape[3]},
                       a.bias.dtype() == DType::f64 ? DType::f64 : DType::f32, a.bias.device());
}
Tensor bias_gradient(const Tensor& bias_sums, const Tensor& bias) {
  if (bias_sums.shape()[0] == 1 && bias_sums.dtype() == bias.dtype()) return bias_sums.reshape(bias.shape());
  const Tensor gradient = empty_like(bias);
  attention_sum_bias(bias.device(), bias_sums, gradient);
  return gradient;
}

std::int64_t products(std::int64_t keys, const Shape& y) { return 2 * y.count() * keys; }  // q·k, and p·v

AttentionArguments extents_of(const Attention& op, const Shape& qkv) {
  expect(qkv.rank() == 3 && op.heads > 0 && qkv[2] % (3 * op.heads) == 0 && 0 <= op.queries && op.queries <= qkv[1],
         "attention: expected qkv [B, L, 3 · {} heads · d] and at most L queries, got {} and {} queries", op.heads, qkv,
         op.queries);
  return {.samples = qkv[0],
          .heads = op.heads,
          .queries = op.queries == 0 ? qkv[1] : op.queries,
          .keys = qkv[1],
          .head_dim = qkv[2] / (3 * op.heads),
          .query_rows = qkv[1],
          .scale = 0,
          .stream = op.stream};
}

/// q, k or v in the packed form: part 0, 1 or 2 of the columns.
TokenColumns part_of(const Tensor& qkv, std::int64_t part) { return {qkv, part * (qkv.shape().back() / 3)}; }

AttentionArguments extents_of(const CrossAttention& op, const Shape& q, const Shape& k, const Shape& v) {
  expect(
      op.heads > 0 && q.rank() == 3 && q[2] % op.heads == 0 && k.rank() == 3 && k[0] == q[0] && k[2] == q[2] && k == v,
      "cross_attention: expected q [B, Lq, {} heads · d] and k, v [B, Lk, {} heads · d], got {}, {} and {}", op.heads,
      op.heads, q, k, v);
  return {.samples = q[0],
          .heads = op.heads,
          .queries = q[1],
          .keys = k[1],
          .head_dim = q[2] / op.heads,
          .query_rows = q[1],
          .scale = 0,
          .stream = op.stream};
}

template <Source from, class Op>
Tensor saved_option(const Saved<Op>& saved) {
  return saved.template has<from>() ? saved.template get<from>().whole() : Tensor();
}

}  // namespace

std::int64_t Attention::macs(std::span<const Shape> inputs, const Shape& y) const {
  return products(inputs[qkv][1], y);
}

Tensor Attention::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor& in = inputs[qkv];
  AttentionArguments a = extents_of(*this, in.shape());
  set_options(a, name, in.dtype(), scale, dropout, inputs[bias], inputs[key_lengths]);
  a.q = part_of(in, 0);
  a.k = part_of(in, 1);
  a.v = part_of(in, 2);
  Tensor sums;
  Tensor y = run_forward(a, in.dtype(), in.device(), sums);
  if (sums.defined()) extra_outputs.push_back(std::move(sums));
  return y;
}

void Attention::backward(const Tensor& dy, const Saved<Attention>& saved, Grads& grads) const {
  const Operand packed = saved.get<input(qkv)>();
  const Shape& shape = packed.shape();
  AttentionArguments a = extents_of(*this, shape);
  set_options(a, name, dy.dtype(), scale, dropout, saved_option<input(bias)>(saved),
              saved_option<input(key_lengths)>(saved));
  if (grads.wanted(qkv)) {
    a.y = kept_or_none<output>(saved);
    a.log_sums = kept_or_none<extra_output(log_sums)>(saved);
  }
  const Tensor dqkv = grads.wanted(qkv) ? Tensor::empty(shape, dy.dtype(), dy.device()) : Tensor();
  const Tensor bias_sums = bias_sums_for(a, grads.wanted(bias));
  run_backward(
      a, dy, packed.block_rows() / a.keys, bias_sums,
      [&](AttentionArguments& block, std::int64_t first, std::int64_t last) {
        const Tensor in = packed.rows(first * a.keys, last * a.keys);
        block.q = part_of(in, 0);
        block.k = part_of(in, 1);
        block.v = part_of(in, 2);
      },
      [&](std::int64_t first, std::int64_t last) -> AttentionGradients {
        if (!dqkv.defined()) return {};
        const Tensor to = dqkv.row_range(first * a.keys, last * a.keys);
        return {.q = part_of(to, 0), .k = part_of(to, 1), .v = part_of(to, 2)};
      });
  if (dqkv.defined()) grads[qkv] = dqkv;
  if (bias_sums.defined()) grads[bias] = bias_gradient(bias_sums, a.bias);
}

std::int64_t CrossAttention::macs(std::span<const Shape> inputs, const Shape& y) const {
  return products(inputs[k][1], y);
}

Tensor CrossAttention::forward(std::span<const Tensor> inputs) const {
  const Tensor& query = inputs[q];
  AttentionArguments a = extents_of(*this, query.shape(), inputs[k].shape(), inputs[v].shape());
  expect(inputs[k].dtype() == query.dtype() && inputs[v].dtype() == query.dtype(),
         "cross_attention: expected q, k and v of one type, got {}, {} and {}", name_of(query.dtype()),
         name_of(inputs[k].dtype()), name_of(inputs[v].dtype()));
  set_options(a, name, query.dtype(), scale, dropout, inputs[bias], inputs[key_lengths]);
  a.q = {query};
  a.k = {inputs[k]};
  a.v = {inputs[v]};
  Tensor unused;
  return run_forward(a, query.dtype(), query.device(), unused);
}

void CrossAttention::backward(const Tensor& dy, const Saved<CrossAttention>& saved, Grads& grads) const {
  const Operand queries = saved.get<input(q)>(), keys = saved.get<input(k)>();
  const Shape &q_shape = queries.shape(), &k_shape = keys.shape();
  AttentionArguments a = extents_of(*this, q_shape, k_shape, k_shape);
  set_options(a, name, dy.dtype(), scale, dropout, saved_option<input(bias)>(saved),
              saved_option<input(key_lengths)>(saved));
  const bool reads_v = grads.wanted(q) || grads.wanted(k) || grads.wanted(bias);
  for (const int i : {q, k, v})
    if (grads.wanted(i)) grads[i] = Tensor::empty(i == q ? q_shape : k_shape, dy.dtype(), dy.device());
  const Tensor bias_sums = bias_sums_for(a, grads.wanted(bias));
  std::int64_t decoded = std::min(queries.block_rows() / a.queries, keys.block_rows() / a.keys);
  const Operand values = reads_v ? saved.get<input(v)>() : Operand();
  if (reads_v) decoded = std::min(decoded, values.block_rows() / a.keys);
  run_backward(
      a, dy, decoded, bias_sums,
      [&](AttentionArguments& block, std::int64_t first, std::int64_t last) {
        block.q = {queries.rows(first * a.queries, last * a.queries)};
        block.k = {keys.rows(first * a.keys, last * a.keys)};
        if (reads_v) block.v = {values.rows(first * a.keys, last * a.keys)};
      },
      [&](std::int64_t first, std::int64_t last) {
        const auto rows = [&](int i, std::int64_t length) -> TokenColumns {
          if (!grads.wanted(i)) return {};
          return {grads[i].row_range(first * length, last * length)};
        };
        return AttentionGradients{.q = rows(q, a.queries), .k = rows(k, a.keys), .v = rows(v, a.keys)};
      });
  if (bias_sums.defined()) grads[bias] = bias_gradient(bias_sums, a.bias);
}

}  // namespace lacuna
