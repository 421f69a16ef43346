// What every policy that saves memory has in common: what costs nothing to have again is not kept.
#pragma once

#include "autograd/policy.h"

namespace lacuna {

/// What `exact` answers: derived where a short chain of cheap passes yields the tensor, a mask where only its sign is
/// needed, kept otherwise.
Hold decide_exactly(const SavedTensorInfo& facts);

}  // namespace lacuna
