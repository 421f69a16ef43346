// Kernels of ops/norms/rms_norm.h. x, y, dy, dx: [rows, heads · C] of one floating type; the others in its compute
// type.
#pragma once

#include "core/kernel.h"
#include "core/tensor.h"

namespace lacuna {

class Operand;

/// rstd = 1 / sqrt(mean x² + eps), and y = x · rstd · (offset + weight). weight: [C]; rstd: [rows, heads].
inline constinit Kernel<void(double eps, double offset, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                             const Tensor& y)>
    rms_norm_forward{"rms_norm"};

/// y from the rstd of an earlier call, with the same bits.
inline constinit Kernel<void(double offset, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& y)>
    rms_norm_normalize{"rms_norm from its statistics"};
/// The same of elements of x from `begin` on. x: codes on cuda (RematInputs::codes).
inline constinit Kernel<void(double offset, const Operand& x, std::int64_t begin, const Tensor& weight,
                             const Tensor& rstd, const Tensor& y)>
    rms_norm_of_codes{"rms_norm of codes from its statistics"};

/// Undefined: a gradient that is not wanted.
struct RmsNormGradients {
  Tensor x{};          // [rows, heads · C]; may be dy
  bool add_x = false;  // adds to it
  Tensor weight{};     // [C]
};

/// weight may be undefined if the gradient of x is.
inline constinit Kernel<void(double offset, const Operand& x, const Tensor& weight, const Tensor& rstd,
                             const Tensor& dy, const RmsNormGradients& to)>
    rms_norm_backward{"rms_norm backward"};

}  // namespace lacuna
