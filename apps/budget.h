// A memory budget turned into a plan: what the policy `auto` holds how.
#pragma once

#include "apps/configuration.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::apps {

/// Bytes from text as `6GiB`, `1.5GB`, `800MiB` or `1048576`; rejects anything else.
std::int64_t parse_bytes(const std::string& text);

/// Chooses, for a configuration whose policy is `auto`, how many bits tensors are held in and which blocks are
/// recomputed, so that a training step fits the budget, and writes it into `memory`: `bits`, `rules`, `recompute`, and
/// in words. Candidates are tried on `meta`, so that the plan is exact to the byte and takes no run. In this order,
/// each only when the one before does not suffice: everything exact; 8 bits for as many tensors as needed; down to 4
/// bits; blocks recomputed, from the first on; 3 bits, and 2, without and with blocks recomputed. Without `codes`:
/// blocks and their parts recomputed. Within a stage as little as possible is given up. Rejects a budget that no choice
/// fits, and says the smallest that one would. A configuration that holds a plan already is left as it is.
void fit_budget(Configuration& configuration);

/// Patterns on the paths of all blocks that can be recomputed, as `blocks.*`.
std::vector<std::string> recomputable_blocks(const Configuration& configuration);

}  // namespace lacuna::apps
