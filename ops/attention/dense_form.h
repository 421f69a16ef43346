// Attention that cuDNN computes (ops/attention/dense_cuda.h), and the memory that it takes.
#pragma once

#include "core/kernel.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/causal_kernels.h"
#include "ops/dnn_cuda.h"

#include <optional>

namespace lacuna {

/// y = dropout(softmax(scale · q·kᵀ)) · v for each sample and head; heads of q share those of k and v in groups.
/// causal: query i sees keys up to i. Columns as in AttentionArguments.
struct DenseArguments {
  std::int64_t samples, heads, kv_heads, queries, keys, head_dim;
  std::int64_t query_rows;  // rows from one sample's queries to the next's
  double scale;
  bool causal;
  TokenColumns q, k, v;
  Tensor y{}, log_sums{};  // for backward: those of forward
  cuda::SampleRows rows = cuda::SampleRows::equal;
  const Sequences* sequences = nullptr;  // of rows that are not equal: sequence first + i is sample i
  bool every_query = true;               // rows of a sample ask, not its first `queries` alone
  std::int64_t first = 0;
  double dropout = 0;
  RandomStream stream{};
  std::int64_t draw_rows = 0, draw_columns = 0;  // as in AttentionArguments

  /// The first row of sample i, if each has `rows_of_sample` where they are not packed.
  std::int64_t row(std::int64_t i, std::int64_t rows_of_sample) const {
    return rows == cuda::SampleRows::packed ? sequences->begin(first + i) - sequences->begin(first)
                                            : i * rows_of_sample;
  }
  /// Whether backward computes forward again.
  bool needs_forward() const { return !y.defined() || !log_sums.defined(); }
  /// The most rows of y that `part` samples in a row have, of those that begin at a multiple of it.
  std::int64_t most_rows(std::int64_t part) const;
};

/// Nothing: there is a bias or another option that cuDNN is not asked for. It is the same for each block of samples.
std::optional<DenseArguments> dense_form(const AttentionArguments& a);
std::optional<DenseArguments> dense_form(const CausalArguments& a);

/// Whether cuDNN takes heads of this size, in this type.
bool is_dense(std::int64_t head_dim, DType dtype);

/// cuDNN's form of the samples of one call; strides are 0 where there are no tokens.
cuda::DenseAttention dense_problem(const DenseArguments& a, DType dtype, bool backward);

/// Whether `has_plan(problem)` holds for all parts of `backward`, and of forward where it is computed again.
template <class F>
bool has_backward_plans(const DenseArguments& a, const cuda::DenseAttention& backward, const F& has_plan) {
  cuda::DenseAttention forward = dense_problem(a, backward.dtype, false);
  return cuda::all_parts(backward, [&](const cuda::DenseAttention& one) {
    forward.samples = one.samples;
    return (!a.needs_forward() || has_plan(forward)) && has_plan(one);
  });
}

/// The memory of a call beside its tokens.
struct DenseMemory {
  DenseMemory(const cuda::DenseAttention& of, Device device);

  static constexpr std::int64_t unit = 4;  // of elements: places at which cuDNN's tensors may begin
  Tensor tables{};                         // i32: lengths of queries and keys, offsets of both (of_table elements each)
  Tensor mask{};                           // [samples, heads, queries, keys]; of dropout, as the next:
  Tensor scales{};                         // f32 [2, unit]: 1 / (1 - rate) and 1 - rate, each in front
  Tensor workspace{};                      // u8
  static std::int64_t of_table(std::int64_t samples) { return (samples + 1 + unit - 1) / unit * unit; }
};

/// Whether the library of a device has a plan for it.
inline constinit Kernel<void(Device device, const cuda::DenseAttention& what, bool& has)> dense_plan{
    "attention's plan"};

/// Takes and releases on `meta` what attention takes on cuda; nothing elsewhere. Forward's returns the log sums that it
/// will give, f32 [samples, heads, queries], or an undefined tensor.
Tensor take_dense_forward_memory(const DenseArguments& of, DType dtype, Device device);
/// False: kernels of our own compute it, and nothing is taken.
bool take_dense_backward_memory(const DenseArguments& of, DType dtype, Device device);
/// Workspace of our own kernels for backward of `tasks` heads of samples. sequences: their count, or 0.
void take_attention_memory(std::int64_t tasks, std::int64_t queries, std::int64_t sequences, Device device);

}  // namespace lacuna
