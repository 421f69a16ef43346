// Attention by cuDNN: in bf16 and f16, over samples of one length.
#pragma once

#include "ops/attention/attention_kernels.h"

namespace lacuna {

/// y = softmax(scale · q·kᵀ) · v for each sample and head; heads of q share those of k and v in groups. causal: query i
/// sees keys up to i. Columns as in AttentionArguments.
struct DenseArguments {
  std::int64_t samples, heads, kv_heads, queries, keys, head_dim;
  std::int64_t query_rows;  // rows from one sample's queries to the next's
  double scale;
  bool causal;
  TokenColumns q, k, v;
  Tensor y{}, log_sums{};  // for backward: those of forward
};

/// Returns the logarithms of the sums of each query's exponentials, f32 [samples, heads, queries]. Undefined: cuDNN is
/// not here or does not compute it, and nothing is done. y [samples · queries, heads · head_dim].
Tensor forward_by_cudnn(const DenseArguments& a, const Tensor& y);
/// False: nothing is done, as above. All three gradients have to be wanted. Without y or log_sums forward runs again.
bool backward_by_cudnn(const DenseArguments& a, const Tensor& dy, const TokenColumns& dq, const TokenColumns& dk,
                       const TokenColumns& dv);

}  // namespace lacuna
