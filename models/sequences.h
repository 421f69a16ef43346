// The sequences of a batch of token ids.
#pragma once

#include "models/model.h"
#include "ops/shapes/sequences.h"

namespace lacuna {

/// The sequences of a batch: `tokens` [T] with `offsets` i64 [N + 1], or [N, L] with `key_lengths` i64 [N] or without
/// any. Both lie on the host.
SequencesPtr sequences_of(const Inputs& batch);

}  // namespace lacuna
