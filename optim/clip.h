// Clipping by the global norm of the gradients.
#pragma once

#include "nn/module.h"

#include <span>

namespace lacuna {

/// The L2 norm of all gradients together; parameters that are frozen or have none count nothing. Summed in double over
/// a fixed partition: the same bits every time. 0 on `meta`.
double gradient_norm(std::span<Parameter* const> parameters);

/// The factor that brings gradients of norm `norm` down to `max_norm`: min(1, max_norm / (norm + 1e-6)), as
/// torch.nn.utils.clip_grad_norm_; NaN for a norm that is NaN. Hand it to Optimizer::step, which applies it on the way.
double clip_factor(double norm, double max_norm);

}  // namespace lacuna
