// Kernels of ops/attention/attention.h. One call computes a block of consecutive samples.
#pragma once

#include "core/kernel.h"
#include "core/random.h"
#include "core/tensor.h"
#include "ops/shapes/sequences.h"

namespace lacuna {

/// Columns [first, first + heads · head_dim) of `tokens`, whose rows [samples · length, C] are the tokens of one sample
/// after another. Undefined: a gradient that nobody wants.
struct TokenColumns {
  Tensor tokens{};
  std::int64_t first = 0;
};

struct AttentionArguments {
  std::int64_t samples, heads, queries, keys, head_dim;
  std::int64_t query_rows;  // rows from one sample's queries to the next's in q and dq: not fewer than `queries`
  double scale;
  TokenColumns q{}, k{}, v{};
  Tensor bias{};         // [W, heads or 1, queries or 1, keys] or undefined
  Tensor key_lengths{};  // i64 [batch] or undefined
  double dropout = 0;
  RandomStream stream{};
  std::int64_t first = 0;  // of these samples in the batch
  /// The offsets of the samples, if their lengths differ: `keys` is then the longest. Null: all have `keys` keys.
  const Sequences* sequences = nullptr;
  bool every_query = true;  // with `sequences`: q has the rows of k; otherwise `queries` rows a sample
  // Draw (head · draw_rows + query) · draw_columns + key of a sample decides on a probability.
  std::int64_t draw_rows = 0, draw_columns = 0;
  /// For backward, those of forward: y, and log_sums f32 [samples, heads, queries]; or undefined.
  Tensor y{}, log_sums{};
};

struct AttentionGradients {
  TokenColumns q{}, k{}, v{};
  /// [parts, W, heads or 1, queries or 1, keys] in the compute type, added to; or undefined. Samples b with the same
  /// (b % W, b / W % parts) are summed by one thread in ascending order.
  Tensor bias_sums{};
};

/// Elements of the compute type that one thread of the CPU works in; none on cuda. A plan on `meta` gets log_sums of
/// forward here.
std::int64_t attention_forward_workspace(const AttentionArguments& a, DType dtype, Device device, Tensor& log_sums);
std::int64_t attention_backward_workspace(const AttentionArguments& a, DType dtype, Device device);

/// y [samples · queries, heads · head_dim]; workspace [threads, C]. On cuda log_sums is set if backward can use it.
inline constinit Kernel<void(const AttentionArguments& a, const Tensor& y, Tensor& log_sums, const Tensor& workspace)>
    attention_forward{"attention forward"};
inline constinit Kernel<void(const AttentionArguments& a, const Tensor& dy, const AttentionGradients& to,
                             const Tensor& workspace)>
    attention_backward{"attention backward"};
/// bias_gradient = the sum of `bias_sums` over its first axis, in order.
inline constinit Kernel<void(const Tensor& bias_sums, const Tensor& bias_gradient)> attention_sum_bias{
    "attention bias gradient"};

}  // namespace lacuna
