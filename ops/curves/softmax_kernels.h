// Kernels of ops/curves/softmax.h. All tensors: [rows, C] of one floating type.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

inline constinit Kernel<void(const Tensor& x, const Tensor& y)> softmax_forward{"softmax"};
inline constinit Kernel<void(const Tensor& x, const Tensor& y)> log_softmax_forward{"log_softmax"};

/// dx from the output y; dx may be dy.
inline constinit Kernel<void(const Tensor& y, const Tensor& dy, const Tensor& dx)> softmax_backward{"softmax backward"};
inline constinit Kernel<void(const Tensor& y, const Tensor& dy, const Tensor& dx)> log_softmax_backward{
    "log_softmax backward"};

}  // namespace lacuna
