// Gradients that meet, and how they differ.
#pragma once

#include "core/tensor.h"

namespace lacuna {

/// a + b, written into whichever of the two nobody else sees.
Tensor sum(Tensor a, Tensor b);
/// Σ (a − b)², or Σ a² without b; 0 on `meta`.
double squared_difference(const Tensor& a, const Tensor& b);

}  // namespace lacuna
