// The sequences of a batch of token ids.
#pragma once

#include "models/model.h"
#include "ops/shapes/sequences.h"

namespace lacuna {

/// The sequences of a batch: `tokens` [T] with `offsets` i64 [N + 1], or [N, L] with `key_lengths` i64 [N] or without
/// any. Where samples have several sequences, `sequence_lengths` i64 has those of all samples, which add up to T. All
/// lie on the host; `key_lengths` may lie on a cuda device where nothing on the host asks for lengths.
SequencesPtr sequences_of(const Inputs& batch);
/// Rejects `key_lengths` of the host that are not lengths of its `tokens`; a batch may have neither.
void check_lengths(const Batch& batch);

}  // namespace lacuna
