// Attention by cuDNN: in bf16 and f16.
#pragma once

#include "ops/attention/dense_form.h"

namespace lacuna {

/// Returns the logarithms of the sums of each query's exponentials, f32 [samples, heads, queries]. Undefined: cuDNN is
/// not here or does not compute it, and nothing is done. y [rows of q, heads · head_dim].
Tensor forward_by_cudnn(const DenseArguments& a, const Tensor& y);
/// False: nothing is done, as above. All three gradients have to be wanted. Without y or log_sums forward runs again.
bool backward_by_cudnn(const DenseArguments& a, const Tensor& dy, const TokenColumns& dq, const TokenColumns& dk,
                       const TokenColumns& dv);

}  // namespace lacuna
