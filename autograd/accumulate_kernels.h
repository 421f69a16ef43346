// Kernels of autograd/accumulate.h. The tensors of a call share one floating-point type and shape.
#pragma once

#include "core/kernel.h"
#include "core/random.h"

#include <span>

namespace lacuna {

class Tensor;

/// out = a − b; out may be a or b.
inline constinit Kernel<void(const Tensor& a, const Tensor& b, const Tensor& out)> subtract_elements{
    "difference of gradients"};

/// sums[i] = Σ (a − b)² over elements [bounds[i], bounds[i + 1]). b is undefined for Σ a². sums: on the host.
inline constinit Kernel<void(const Tensor& a, const Tensor& b, std::span<const std::int64_t> bounds,
                             std::span<double> sums)>
    sum_squared_differences{"squared difference of gradients"};

/// out = a with random signs drawn from `stream`.
inline constinit Kernel<void(const Tensor& a, const RandomStream& stream, const Tensor& out)> draw_signs{
    "random signs"};

}  // namespace lacuna
