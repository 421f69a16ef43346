// The keys that a configuration leaves to the machine by `auto`: train.batch_size, freeze.weights,
// memory.offload_buffer.
#pragma once

#include "apps/config/experiment.h"

namespace lacuna {
class Communicator;
}

namespace lacuna::apps {

/// Replaces `auto` by numbers, from training steps on `meta`:
///   train.batch_size       the largest batch whose training fits into the device, or into memory.budget; at most 1024
///                          and an eighth of the training samples
///   freeze.weights         the first of f32, bf16, int8 and nf4 with which training fits into memory.budget under the
///                          policy `exact`; with `auto` nf4 at the latest, and the policy does the rest
///   memory.offload_buffer  an eighth of the bytes that a step saves, at most 256 MiB
/// Refuses a configuration whose smallest batch does not fit.
void settle_sizes(Experiment& experiment);
/// The same for several ranks: rank 0 decides.
void settle_sizes(Experiment& experiment, Communicator& ranks);
/// The resolved experiment with these sizes.
Experiment settled(Experiment experiment);

}  // namespace lacuna::apps
