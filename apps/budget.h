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
/// in words. Candidates are tried on `meta`, so that a plan is exact to the byte. If everything exact does not fit:
/// none, some or all of the blocks are recomputed, and the bytes left are divided among the tensors by what one short
/// step says that their bits are worth to the gradient, some tensors exact where bytes suffice. Of these plans that one
/// is taken whose predicted time for a step, times one plus the variance that its codes add to the gradient relative to
/// its square, is least. Where none fits, several blocks are recomputed as one. Without `codes`: blocks, their parts,
/// or several as one, as little work as fits, and what is left keeps tensors that would be derived. Rejects a budget
/// that no choice fits, and says the smallest that one would. A configuration that holds a plan already keeps it while
/// it fits.
void fit_budget(Configuration& configuration);

/// Patterns on the paths of all blocks that can be recomputed, as `blocks.*`.
std::vector<std::string> recomputable_blocks(const Configuration& configuration);

}  // namespace lacuna::apps
