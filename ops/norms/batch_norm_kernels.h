// Kernels of ops/norms/batch_norm.h. x, y, residual, dy and their gradients: [rows, C] of one floating type. Tensors of
// channels: [C] in its compute type.
#pragma once

#include "core/communicator.h"
#include "core/kernel.h"
#include "ops/operand.h"

#include <cstdint>

namespace lacuna {

/// Mean and biased variance of each channel.
inline constinit Kernel<void(const Tensor& x, const Tensor& mean, const Tensor& variance)> batch_norm_statistics{
    "batch_norm statistics"};

/// Mean and variance of the batches of all ranks, which have as many rows each. all [ranks, 2, C]: those of each rank.
/// Sums are in the order of the ranks, in f64, as torch.nn.SyncBatchNorm weights them.
inline constinit Kernel<void(const Tensor& all, const Tensor& mean, const Tensor& variance)> batch_norm_join{
    "batch_norm statistics of all ranks"};

struct BatchNormChannels {
  const Tensor &weight, &bias, &mean, &variance;
  double eps;
};

/// The activation behind the sum: none, max(·, 0), or zero where the bit of `signs` (quant::pack_signs) is not set.
/// Element 0 of the call has bit `first_element`.
struct Rectify {
  bool relu = false;
  Tensor signs{};
  std::int64_t first_element = 0;
};

/// y = rectify((x − mean) / √(variance + eps) · weight + bias + residual). residual may be undefined.
inline constinit Kernel<void(const BatchNormChannels& channels, const Tensor& x, const Tensor& residual,
                             const Rectify& rectify, const Tensor& y)>
    batch_norm_apply{"batch_norm"};
/// The same of elements of x from `begin` on. x: codes on cuda (RematInputs::codes).
inline constinit Kernel<void(const BatchNormChannels& channels, const Operand& x, std::int64_t begin,
                             const Tensor& residual, const Rectify& rectify, const Tensor& y)>
    batch_norm_of_codes{"batch_norm of codes"};

/// Undefined: not read for the wanted gradients.
struct BatchNormBackward {
  Tensor dy{};
  Operand x{};
  Tensor weight{}, bias{}, mean{}, variance{};
  /// Signs of the output of a form with a ReLU. If undefined and `bias` is given, they are found from x.
  Operand signs{};
  bool own_statistics = true;  // mean and variance are functions of x
  double eps = 0;
  Communicator* ranks =
      nullptr;  // of whose batches, of one size each, mean and variance are functions; null: of this one
};

/// Undefined: not wanted. Those of weight and bias are added to.
struct BatchNormGradients {
  Tensor x{}, weight{}, bias{}, residual{};  // residual, or x without it, may be dy
};

inline constinit Kernel<void(const BatchNormBackward& given, const BatchNormGradients& to)> batch_norm_backward{
    "batch_norm backward"};

}  // namespace lacuna
