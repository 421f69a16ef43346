// The rule that all policies but `keep` share: a tensor that is cheap to recompute is not kept.
#pragma once

#include "autograd/policy.h"

namespace lacuna {

/// The answer of `exact`: `rematerialize` if a short chain of cheap ops recomputes the tensor, `sign_mask` if only its
/// sign is needed, otherwise `keep`.
Hold decide_exactly(const SavedTensorInfo& info);

/// Whether a tensor with this hold may be offloaded between forward and backward. Excluded are small tensors, tensors
/// that the caller holds anyway, and tensors of a recomputed region, which are read soon.
bool can_offload(const Hold& hold, const SavedTensorInfo& info);

}  // namespace lacuna
