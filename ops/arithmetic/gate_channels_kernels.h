// Kernels of ops/arithmetic/gate_channels.h. Tensors of one call have one floating type.
#pragma once

#include "core/kernel.h"

#include <cstdint>

namespace lacuna {

class Tensor;

/// y = x · gate, where row r of x meets row (first_row + r) / pixels of gate. x, y: [rows, C], y may be x; gate [N, C].
inline constinit Kernel<void(const Tensor& x, const Tensor& gate, std::int64_t pixels, std::int64_t first_row,
                             const Tensor& y)>
    gate_channels{"gate_channels"};
/// dgate [n, C] = Σ of dy · x over the pixels of each image. dy, x: [n · pixels, C].
inline constinit Kernel<void(const Tensor& dy, const Tensor& x, const Tensor& dgate)> gate_channels_gradient{
    "gate_channels backward"};

}  // namespace lacuna
