// What all policies but `keep` share: a tensor that is cheap to compute again is not kept.
#pragma once

#include "autograd/policy.h"

namespace lacuna {

/// The answer of `exact`: rematerialized if a short chain of cheap ops yields the tensor, a mask if only its sign is
/// needed, otherwise kept.
Hold decide_exactly(const SavedTensorInfo& info);

/// Whether a tensor that is held like that may lie on a file between forward and backward: not what is small, what its
/// caller holds anyway, or what a region that runs again reads at once.
bool can_offload(const Hold& hold, const SavedTensorInfo& info);

}  // namespace lacuna
