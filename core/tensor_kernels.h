// Kernels of core/tensor.h.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// y[i] = value, converted to y's type.
inline constinit Kernel<void(double value, const Tensor& y)> tensor_fill{"fill"};

/// y[i] = x[i], converted to y's type. x and y have equal counts, are on one device and do not overlap.
inline constinit Kernel<void(const Tensor& x, const Tensor& y)> tensor_copy{"copy"};

}  // namespace lacuna
