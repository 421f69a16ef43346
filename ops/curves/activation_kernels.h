// Kernels of ops/curves/activation.h. Tensors of one call have one floating type.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Operand;
class Tensor;

/// Calls `f` for each curve C of ops/formulas.h whose derivative is CBackward.
#define LACUNA_CURVES(f) f(GeluErf) f(GeluTanh) f(Silu) f(QuickGelu) f(Sigmoid) f(Tanh)

/// y = f(x). x, y: [n].
using ActivationKernel = Kernel<void(const Tensor& x, const Tensor& y)>;
template <class C>
inline constinit ActivationKernel curve_forward{"activation"};
inline constinit ActivationKernel relu_forward{"relu"};

/// dx = dy · f'. `saved`: x, or y for sigmoid and tanh. All [..., C] of one shape; dx may be dy.
using ActivationGradientKernel = Kernel<void(const Operand& saved, const Tensor& dy, const Tensor& dx)>;
template <class C>
inline constinit ActivationGradientKernel curve_backward{"activation backward"};
/// dx = dy where y > 0, and 0 elsewhere. y, dy, dx: [n]; dx may be dy.
inline constinit Kernel<void(const Tensor& y, const Tensor& dy, const Tensor& dx)> relu_backward{"relu backward"};

}  // namespace lacuna
