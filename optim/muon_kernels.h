// The kernel that Muon has beside its rules.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// square = identity · I + linear · gram + quadratic · square. gram, square: f32 [n, n].
inline constinit Kernel<void(double identity, double linear, double quadratic, const Tensor& gram,
                             const Tensor& square)>
    newton_schulz_factor{"Newton-Schulz iteration"};

}  // namespace lacuna
