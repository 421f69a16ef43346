// A memory budget turned into a plan: what the policy `auto` holds how.
#pragma once

#include "apps/config/configuration.h"
#include "apps/train/step_time.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lacuna::apps {

/// Bytes from text as `6GiB`, `1.5GB`, `800MiB` or `1048576`; rejects anything else.
std::int64_t parse_bytes(const std::string& text);

/// Chooses, for a configuration whose policy is `auto`, how many bits tensors are held in, which are kept though they
/// could be derived, and which blocks are recomputed, so that a training step fits the budget, and writes it into
/// `memory`: `bits`, `rules`, `recompute`, and in words. Candidates are tried on `meta`, so that a plan is exact to the
/// byte. If everything exact fits, nothing is chosen. If not: some of the blocks are recomputed, none to all, and the
/// bytes left are divided among the tensors by what one short step says that their bits are worth to the gradient; what
/// is left over keeps tensors that would be derived. Of these plans, and the one that has no codes, that one is taken
/// whose predicted time for a step, times one plus the variance that its codes add to the gradient relative to its
/// square, is least; parts of all blocks, or several blocks as one, are recomputed where that may be it. Without
/// `codes`: blocks, their parts, or several as one, as little work as fits, and what is left keeps tensors that would
/// be derived. Less than 95 % of the budget is used where everything fits, or where nothing more that would be kept
/// fits: in that case `memory.left_over` says how much is not, in bytes. `rates`: in place of those measured here.
/// Rejects a budget that no choice fits, and says the smallest that one would. A configuration that holds a plan
/// already keeps it while it fits and would not leave more of the budget than it did or 5 %.
void fit_budget(Configuration& configuration, const std::optional<Rates>& rates = {});

/// Takes off what `fit_budget` wrote.
void forget_plan(Configuration::Memory& memory);

/// Gives a configuration that asks for the plan of a budget, and has none, the one that another holds: what a run
/// recorded, so that it goes on as it began wherever that plan still does.
void take_plan(const Configuration::Memory& recorded, Configuration::Memory& memory);

/// What training takes at the least that `auto` comes to, in bytes, by codes (if `memory` allows them) and
/// recomputation: what its refusal of a smaller budget says. Once that is `enough` bytes or fewer no less is looked
/// for.
std::int64_t least_need(const Configuration& configuration, std::int64_t enough);

/// Patterns on the paths of all blocks that can be recomputed, as `blocks.*`.
std::vector<std::string> recomputable_blocks(const Configuration& configuration);

}  // namespace lacuna::apps
