// Kernels of ops/arithmetic/reduce.h.
#pragma once

#include "core/kernel.h"

#include <cstdint>

namespace lacuna {

class Tensor;
struct Factor;  // ops/arithmetic/factor.h

/// Elements that `sum_elements` adds in the compute type before it goes on in f64.
inline constexpr std::int64_t sum_run = 4096;

/// y = factor · Σ x, y: [] of x's type. partial: f64 [ceil(n / sum_run)], workspace.
inline constinit Kernel<void(double factor, const Tensor& x, const Tensor& partial, const Tensor& y)> sum_elements{
    "sum"};

/// dx[i] = factor · dy, dy: [] of dx's type.
inline constinit Kernel<void(double factor, const Tensor& dy, const Tensor& dx)> spread_gradient{"sum backward"};

/// y[i] += Σ_k x[k, i]. x: [repetitions, n]; y: [n] in the compute type.
inline constinit Kernel<void(const Tensor& x, const Tensor& y)> sum_repetitions{"sum_over_leading"};

/// sums[i] += factor · x[i]. x: [n] of any floating type; sums: f64 [n].
inline constinit Kernel<void(const Factor& factor, const Tensor& x, const Tensor& sums)> add_to_sums{"running sum"};

}  // namespace lacuna
