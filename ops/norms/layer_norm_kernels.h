// Kernels of ops/norms/layer_norm.h. x, y, dy, dx: [rows, C] of one floating type; the others in its compute type.
#pragma once

#include "core/kernel.h"
#include "core/tensor.h"

namespace lacuna {

class Operand;

/// y = x̂ · weight + bias with x̂ = (x - mean) · rstd, and the statistics. weight, bias: [C], the latter undefined if
/// there is none; mean, rstd: [rows, 1].
inline constinit Kernel<void(double eps, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                             const Tensor& rstd, const Tensor& y)>
    layer_norm_forward{"layer_norm"};

/// y from the statistics of an earlier call, with the same bits.
inline constinit Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                             const Tensor& rstd, const Tensor& y)>
    layer_norm_normalize{"layer_norm from its statistics"};
/// The same of elements of x from `begin` on. x: codes on cuda (RematInputs::codes).
inline constinit Kernel<void(const Operand& x, std::int64_t begin, const Tensor& weight, const Tensor& bias,
                             const Tensor& mean, const Tensor& rstd, const Tensor& y)>
    layer_norm_of_codes{"layer_norm of codes from its statistics"};

/// Undefined: a gradient that is not wanted.
struct LayerNormGradients {
  Tensor x{};          // [rows, C]; may be dy
  bool add_x = false;  // adds to it
  Tensor weight{};     // [C]
  Tensor bias{};       // [C]
};

/// weight may be undefined if the gradient of x is.
inline constinit Kernel<void(const Operand& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                             const Tensor& dy, const LayerNormGradients& to)>
    layer_norm_backward{"layer_norm backward"};

/// The bias's gradient alone, added to zeros; on the CPU with the bits that layer_norm_backward gives it.
inline constinit Kernel<void(const Tensor& dy, const Tensor& to)> layer_norm_bias{"layer_norm backward of the bias"};

}  // namespace lacuna
