// The rule that all policies but `keep` share: a tensor that is cheap to recompute is not kept.
#pragma once

#include "autograd/policy.h"

namespace lacuna {

/// The answer of `exact`: rematerialized if a short chain of cheap ops yields the tensor, a mask if only its sign is
/// needed, otherwise kept.
Hold decide_exactly(const SavedTensorInfo& info);

/// Whether a tensor with this hold may lie on a file between forward and backward. Small tensors may not, nor tensors
/// that the caller holds anyway, nor those of a region that runs again, which are read at once.
bool can_offload(const Hold& hold, const SavedTensorInfo& info);

}  // namespace lacuna
