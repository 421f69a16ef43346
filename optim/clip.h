// Norms of gradients, and how they are held down before they count.
#pragma once

#include "core/tensor.h"

namespace lacuna {

/// Limits on gradients; 0: none. At most one is set.
struct Clipping {
  double norm = 0;            // of all gradients together, as torch.nn.utils.clip_grad_norm_
  double parameter_norm = 0;  // of each parameter's gradient by itself
  double value = 0;           // of each element's magnitude, as torch.nn.utils.clip_grad_value_
};

/// Σ x² of an f32 or bf16 tensor, in double over a fixed partition: the same bits for any number of threads. 0 on
/// `meta`.
double sum_of_squares(const Tensor& x);

/// The factor that brings gradients of norm `norm` down to `max_norm`: min(1, max_norm / (norm + 1e-6)), as
/// torch.nn.utils.clip_grad_norm_; NaN for a norm that is NaN.
double clip_factor(double norm, double max_norm);

}  // namespace lacuna
