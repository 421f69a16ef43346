// Kernels of ops/curves/activation.h. Tensors of one call have one floating type.
#pragma once

#include "core/kernel.h"
#include "ops/curves/curve_list.h"

namespace lacuna {

class Operand;
class Tensor;

/// y = f(x). x, y: [n].
using ActivationKernel = Kernel<void(const Tensor& x, const Tensor& y)>;
template <class C>
inline constinit ActivationKernel curve_forward{"activation"};
inline constinit ActivationKernel relu_forward{"relu"};

/// The same of elements of x from `begin` on. x: codes on cuda (RematInputs::codes).
using ActivationOfCodesKernel = Kernel<void(const Operand& x, std::int64_t begin, const Tensor& y)>;
template <class C>
inline constinit ActivationOfCodesKernel curve_of_codes{"activation of codes"};

/// dx = dy · f'. `saved`: x, or y for sigmoid and tanh. All [..., C] of one shape; dx may be dy.
using ActivationGradientKernel = Kernel<void(const Operand& saved, const Tensor& dy, const Tensor& dx)>;
template <class C>
inline constinit ActivationGradientKernel curve_backward{"activation backward"};
/// dx = dy where y > 0, and 0 elsewhere. y, dy, dx: [n]; dx may be dy.
inline constinit Kernel<void(const Tensor& y, const Tensor& dy, const Tensor& dx)> relu_backward{"relu backward"};

}  // namespace lacuna
