#include "ops/attention/dense_form.h"

#include "core/planned_device.h"

#include <algorithm>

namespace lacuna {
namespace {

cuda::SampleRows rows_of(const Sequences& sequences) {
  if (sequences.is_padded()) return cuda::SampleRows::padded;  // also a batch of full ones: its replay has others
  for (std::int64_t i = 0; i < sequences.count(); ++i)
    if (sequences.length(i) != sequences.length(0)) return cuda::SampleRows::packed;
  return cuda::SampleRows::equal;
}

/// The most keys of a sample. Of packed ones a multiple of a tile, so that few plans serve all batches.
std::int64_t most_keys(const Sequences& sequences, cuda::SampleRows rows) {
  constexpr std::int64_t tile = 64;
  if (rows != cuda::SampleRows::packed) return sequences.end(0) - sequences.begin(0);
  return (sequences.longest() + tile - 1) / tile * tile;
}

bool are_alike(const Sequences& a, const Sequences& b) {
  if (&a == &b) return true;
  return std::ranges::equal(std::span(a.offsets(), static_cast<std::size_t>(a.count() + 1)),
                            std::span(b.offsets(), static_cast<std::size_t>(b.count() + 1))) &&
         std::ranges::equal(std::span(a.lengths(), static_cast<std::size_t>(a.count())),
                            std::span(b.lengths(), static_cast<std::size_t>(b.count())));
}

Tensor workspace_of(const Shape& shape, DType dtype, Device device) {
  return Tensor::empty(shape, dtype, device, Purpose::workspace);
}

/// Whether cuDNN has a plan on the card that a step on `meta` simulates. One that is here is asked.
bool has_planned(const cuda::DenseAttention& what) {
  const Card card = card_of(Device::meta);
  bool has = cuda::is_planned_on(card.compute_capability, what);
  if (!card.device) return has;
  const Device here{DeviceKind::cuda, static_cast<std::uint8_t>(*card.device)};
  dense_plan(here, here, what, has);
  return has;
}

/// Whether a step on `meta` may plan for attention by cuDNN.
bool may_be_planned(const cuda::DenseAttention& what, Device device) {
  return device == Device::meta && is_dense(what.head_dim, what.dtype);
}

}  // namespace

std::int64_t DenseArguments::most_rows(std::int64_t part) const {
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < samples; i += part)
    most = std::max(most, row(std::min(samples, i + part), queries) - row(i, queries));
  return most;
}

std::optional<DenseArguments> dense_form(const AttentionArguments& a) {
  if (a.bias.defined() || a.key_lengths.defined()) return std::nullopt;
  DenseArguments form{.samples = a.samples,
                      .heads = a.heads,
                      .kv_heads = a.heads,
                      .queries = a.queries,
                      .keys = a.keys,
                      .head_dim = a.head_dim,
                      .query_rows = a.query_rows,
                      .scale = a.scale,
                      .causal = false,
                      .q = a.q,
                      .k = a.k,
                      .v = a.v,
                      .y = a.y,
                      .log_sums = a.log_sums,
                      .sequences = a.sequences,
                      .every_query = a.every_query,
                      .first = a.first,
                      .dropout = a.dropout,
                      .stream = a.stream,
                      .draw_rows = a.draw_rows,
                      .draw_columns = a.draw_columns};
  if (a.sequences == nullptr) return form;
  form.rows = rows_of(*a.sequences);
  form.keys = most_keys(*a.sequences, form.rows);
  if (form.rows == cuda::SampleRows::packed && !a.every_query) return std::nullopt;
  if (a.every_query) form.queries = form.query_rows = form.keys;
  return form;
}

std::optional<DenseArguments> dense_form(const CausalArguments& a) {
  if (a.window != 0 || a.ahead != 0 || a.soft_cap != 0 || !a.slopes.empty() || !are_alike(a.keys, a.queries))
    return std::nullopt;
  const cuda::SampleRows rows = rows_of(a.keys);
  const std::int64_t most = most_keys(a.keys, rows);
  return DenseArguments{.samples = a.last - a.first,
                        .heads = a.heads,
                        .kv_heads = a.kv_heads,
                        .queries = most,
                        .keys = most,
                        .head_dim = a.head_dim,
                        .query_rows = most,
                        .scale = a.scale,
                        .causal = true,
                        .q = {a.q},
                        .k = {a.k},
                        .v = {a.v},
                        .y = a.y,
                        .log_sums = a.log_sums,
                        .rows = rows,
                        .sequences = &a.keys,
                        .first = a.first,
                        .dropout = a.dropout,
                        .stream = a.stream,
                        .draw_rows = a.positions,
                        .draw_columns = a.positions};
}

bool is_dense(std::int64_t head_dim, DType dtype) {
  constexpr std::int64_t unit = 8, most_head_dim = 128;
  return (dtype == DType::bf16 || dtype == DType::f16) && head_dim % unit == 0 && head_dim <= most_head_dim;
}

cuda::DenseAttention dense_problem(const DenseArguments& a, DType dtype, bool backward) {
  const auto stride = [](const TokenColumns& columns) {
    return columns.tokens.defined() ? columns.tokens.shape().back() : 0;
  };
  return {.backward = backward,
          .dtype = dtype,
          .samples = a.samples,
          .heads = a.heads,
          .kv_heads = a.kv_heads,
          .queries = a.queries,
          .keys = a.keys,
          .head_dim = a.head_dim,
          .query_rows = a.query_rows,
          .q_stride = stride(a.q),
          .k_stride = stride(a.k),
          .v_stride = stride(a.v),
          .dq_stride = 0,
          .dk_stride = 0,
          .dv_stride = 0,
          .scale = static_cast<float>(a.scale),
          .causal = a.causal,
          .rows = a.rows,
          .dropout = a.dropout > 0};
}

DenseMemory::DenseMemory(const cuda::DenseAttention& of, Device device) {
  if (of.rows != cuda::SampleRows::equal) tables = workspace_of({4 * of_table(of.samples)}, DType::i32, device);
  if (of.dropout) {
    mask = workspace_of({of.samples, of.heads, of.queries, of.keys}, of.dtype, device);
    scales = workspace_of({2, unit}, DType::f32, device);
  }
  workspace = workspace_of({cuda::workspace_for(of)}, DType::u8, device);
}

Tensor take_dense_forward_memory(const DenseArguments& of, DType dtype, Device device) {
  cuda::DenseAttention what = dense_problem(of, dtype, false);
  if (!may_be_planned(what, device) || !cuda::all_parts(what, has_planned)) return {};
  Tensor log_sums = Tensor::empty({of.samples, of.heads, of.queries}, DType::f32, device);
  what.samples = cuda::samples_at_once(what);
  const DenseMemory memory(what, device);
  return log_sums;
}

bool take_dense_backward_memory(const DenseArguments& of, DType dtype, Device device) {
  cuda::DenseAttention what = dense_problem(of, dtype, true);
  what.dq_stride = what.q_stride;  // gradients lie as what they are of
  what.dk_stride = what.k_stride;
  what.dv_stride = what.v_stride;
  if (!may_be_planned(what, device) || !has_backward_plans(of, what, has_planned)) return false;
  what.samples = cuda::samples_at_once(what);
  const bool again = of.needs_forward();
  const Tensor y_again = workspace_of({again ? of.most_rows(what.samples) : 0, of.heads * of.head_dim}, dtype, device),
               sums_again = workspace_of({again ? what.samples : 0, of.heads, of.queries}, DType::f32, device);
  const DenseMemory memory(what, device);
  return true;
}

void take_attention_memory(std::int64_t tasks, std::int64_t queries, std::int64_t sequences, Device device) {
  if (device != Device::meta) return;
  const Tensor offsets = Tensor::empty({sequences == 0 ? 0 : sequences + 1}, DType::i64, device),
               lengths = Tensor::empty({sequences}, DType::i64, device),
               statistics = workspace_of({2, tasks, queries}, DType::f32, device);
}

}  // namespace lacuna
