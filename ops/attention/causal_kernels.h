// Kernels of ops/attention/causal_attention.h. One call computes a block of consecutive sequences.
#pragma once

#include "core/kernel.h"
#include "core/random.h"
#include "core/tensor.h"
#include "ops/shapes/sequences.h"

#include <algorithm>
#include <vector>

namespace lacuna {

struct CausalArguments {
  std::int64_t heads, kv_heads, head_dim;
  double scale;
  std::int64_t window;  // 0: none
  std::int64_t ahead;   // keys behind its own that a query sees
  double soft_cap;      // 0: none
  const std::vector<double>& slopes;
  bool rounds_alibi;
  double dropout;
  RandomStream stream;
  std::int64_t positions;
  const Sequences &keys, &queries;
  std::int64_t parts;                           // of the heads that share one of k: a thread has a part
  std::int64_t first = 0, last = keys.count();  // the sequences of this call
  Tensor q{}, k{}, v{};                         // [rows of these sequences, C]
  /// For backward, those of forward: y, and log_sums f32 [sequences, heads, length]; or undefined.
  Tensor y{}, log_sums{};

  std::int64_t group() const { return heads / kv_heads; }
  /// The position of a sequence's first query.
  std::int64_t first_query(std::int64_t i) const { return keys.length(i) - queries.length(i); }
  /// The keys that a query of sequence i sees are those in [first_key, end_key).
  std::int64_t first_key(std::int64_t query) const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, query - window + 1);
  }
  std::int64_t end_key(std::int64_t i, std::int64_t query) const { return std::min(query + 1 + ahead, keys.length(i)); }
};

/// Rows of these sequences; undefined: a gradient that nobody wants.
struct CausalGradients {
  Tensor q{}, k{}, v{};
  /// [2, parts, rows of k, kv_heads · head_dim] in the compute type if there are several parts, whose sums for k and v
  /// are added in order. Of the CPU alone.
  Tensor partial{};
};

/// Elements of the compute type that one thread of the CPU works in; none on cuda. A plan on `meta` gets log_sums of
/// forward here.
std::int64_t causal_forward_workspace(const CausalArguments& a, DType dtype, Device device, Tensor& log_sums);
std::int64_t causal_backward_workspace(const CausalArguments& a, DType dtype, Device device);

/// y [rows of q, heads · head_dim]; workspace [threads, C]. On cuda log_sums is set if backward can use it.
inline constinit Kernel<void(const CausalArguments& a, const Tensor& y, Tensor& log_sums, const Tensor& workspace)>
    causal_forward{"causal_attention"};
inline constinit Kernel<void(const CausalArguments& a, const Tensor& dy, const CausalGradients& to,
                             const Tensor& workspace)>
    causal_backward{"causal_attention backward"};

}  // namespace lacuna
