// What every policy that saves memory has in common: what costs nothing to have again is not kept.
#pragma once

#include "autograd/policy.h"

namespace lacuna {

/// What `exact` answers: derived where a chain of at most `longest_chain` cheap passes yields the tensor, a mask where
/// only its sign is needed, kept otherwise.
Decision settle_exactly(const SlotFacts& facts, int longest_chain);

/// A longer chain saves little more and makes backward hold all its links at once.
inline constexpr int longest_exact_chain = 3;

}  // namespace lacuna
