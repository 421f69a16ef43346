// Kernels of ops/products/linear.h. The matrix products are in ops/products/gemm.h.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// sums (+)= Σ of the rows of dy. dy: [rows, N]; sums: [N] in the compute type, added to if `add`.
inline constinit Kernel<void(const Tensor& dy, bool add, const Tensor& sums)> sum_rows{"linear bias gradient"};

}  // namespace lacuna
