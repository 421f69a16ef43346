// Kernels of ops/products/scaled_linear.h.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// scaled = scale [N] ∘ rows of `values` [N, K]; may be `values` itself. One floating type.
inline constinit Kernel<void(const Tensor& values, const Tensor& scale, const Tensor& scaled)> scale_rows{
    "scaled_linear"};
/// scale_gradient [N] = Σₖ weight ∘ weight_sums + bias ∘ bias_sums; weights [N, K], biases [N] or undefined. One
/// floating type.
inline constinit Kernel<void(const Tensor& weight, const Tensor& weight_sums, const Tensor& bias,
                             const Tensor& bias_sums, const Tensor& scale_gradient)>
    scaled_linear_scale_gradient{"scaled_linear backward"};

}  // namespace lacuna
