// Kernels of ops/curves/activation.h. Tensors of one call have one floating type.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Operand;
class Tensor;

/// y = f(x). x, y: [n].
using ActivationKernel = Kernel<void(const Tensor& x, const Tensor& y)>;
inline constinit ActivationKernel gelu_erf{"gelu"};
inline constinit ActivationKernel gelu_tanh{"gelu tanh"};
inline constinit ActivationKernel relu_forward{"relu"};
inline constinit ActivationKernel silu_forward{"silu"};
inline constinit ActivationKernel quick_gelu_forward{"quick_gelu"};
inline constinit ActivationKernel sigmoid_forward{"sigmoid"};
inline constinit ActivationKernel tanh_forward{"tanh"};

/// dx = dy · f'. `saved`: x, or y for sigmoid and tanh. All [..., C] of one shape; dx may be dy.
using ActivationGradientKernel = Kernel<void(const Operand& saved, const Tensor& dy, const Tensor& dx)>;
inline constinit ActivationGradientKernel gelu_erf_backward{"gelu backward"};
inline constinit ActivationGradientKernel gelu_tanh_backward{"gelu tanh backward"};
inline constinit ActivationGradientKernel silu_backward{"silu backward"};
inline constinit ActivationGradientKernel quick_gelu_backward{"quick_gelu backward"};
inline constinit ActivationGradientKernel sigmoid_backward{"sigmoid backward"};
inline constinit ActivationGradientKernel tanh_backward{"tanh backward"};

/// dx = dy where y > 0, and 0 elsewhere. y, dy, dx: [n]; dx may be dy.
inline constinit Kernel<void(const Tensor& y, const Tensor& dy, const Tensor& dx)> relu_backward{"relu backward"};

}  // namespace lacuna
