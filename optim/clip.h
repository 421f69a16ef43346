// Norms of gradients, and their limits.
#pragma once

#include "core/tensor.h"

namespace lacuna {

/// Limits on gradients; 0: none. At most one is set.
struct Clipping {
  double norm = 0;            // of all gradients together, as torch.nn.utils.clip_grad_norm_
  double parameter_norm = 0;  // of each parameter's gradient
  double value = 0;           // of each element's magnitude, as torch.nn.utils.clip_grad_value_
};

/// Σ x² of an f32 or bf16 tensor on the CPU, in f64 over a fixed partition: the
/// bits do not depend on the number of threads.
double sum_of_squares(const Tensor& x);

}  // namespace lacuna
