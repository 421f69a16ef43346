// Kernels of ops/arithmetic/arithmetic.h. Tensors of one call have one floating type, unless said otherwise.
#pragma once

#include "core/kernel.h"

#include <cstdint>

namespace lacuna {

class Tensor;

/// y = a + b. All: [n]; y may be a or b.
inline constinit Kernel<void(const Tensor& a, const Tensor& b, const Tensor& y)> add_elements{"add"};

/// y = a · b. All: [n]; y may be a or b.
inline constinit Kernel<void(const Tensor& a, const Tensor& b, const Tensor& y)> multiply_elements{"mul"};

/// y = factor · x. x, y: [n]; y may be x.
inline constinit Kernel<void(double factor, const Tensor& x, const Tensor& y)> scale_elements{"scale"};

/// y = x + b, where row r of x meets row (first_row + r) mod R of b. x, y: [rows, C]; b: [R, C] in the compute type.
inline constinit Kernel<void(const Tensor& x, const Tensor& b, std::int64_t first_row, const Tensor& y)> add_rows{
    "add_broadcast"};

}  // namespace lacuna
