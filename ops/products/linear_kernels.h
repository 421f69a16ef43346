// Kernels of ops/products/linear.h. The matrix products are in ops/products/gemm.h.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// sums (+)= Σ of the rows of dy. dy: [rows, N]; sums: [N] in the compute type, added to if `add`.
inline constinit Kernel<void(const Tensor& dy, bool add, const Tensor& sums)> sum_rows{"linear bias gradient"};

/// weight (+)= dyᵀ·x, and bias (+)= Σ of the rows of dy. dy: [rows, N], x: [rows, K], both of one type; weight: [N, K],
/// bias: [N], both in the compute type.
inline constinit Kernel<void(const Tensor& dy, const Tensor& x, bool add_weight, const Tensor& weight, bool add_bias,
                             const Tensor& bias)>
    linear_gradients{"linear gradients"};

}  // namespace lacuna
