// Memory plans for configurations whose policy is `auto`.
#pragma once

#include "apps/train/setup.h"
#include "autograd/plan/planner.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace lacuna::apps {

/// Bytes from text as `6GiB`, `1.5GB`, `800MiB` or `1048576`; rejects anything else as the value of `key`.
std::int64_t parse_bytes(const std::string& text, std::string_view key = "memory.budget");

/// Bytes of memory.budget; nothing: none is given. `device`, which a GPU has where none is given for `auto`: `room_on`
/// the card.
std::optional<std::int64_t> memory_budget(const Experiment& experiment);

/// The budget without a policy.
Configuration::Memory budget_alone(const Configuration::Memory& memory);

/// A model on `meta` under the policy `exact`, with which a memory plan is made.
std::unique_ptr<Setup> setup_to_plan(const Experiment& experiment);

/// Gives an experiment whose policy is `auto` its memory plan, by steps of `setup`; leaves others as they are.
///
/// The plan is that of the file `memory.plan`, if one is named: rejected, with its keys, where it is for another step
/// or over the budget. Else that of `recorded`, the plan.json of a run that goes on, if it is there and still fits.
/// Else one is made for `memory.budget`: rejected, with the smallest budget that suffices, where no plan fits.
void plan_memory(Setup& setup, Experiment& experiment, const CostTable& costs,
                 const std::filesystem::path& recorded = {});
/// The same with a setup of its own.
void plan_memory(Experiment& experiment, const CostTable& costs);

/// The bytes of a step as `auto` counts them for the experiment's budget: those of `exact` where they fit, else of a
/// plan that quantizes nothing, which may be over it.
std::int64_t bytes_without_codes(Setup& setup, Experiment experiment);

/// The plan of `auto` for a training step within `budget`, a value of memory.budget. Nothing is computed.
PlannerResult plan_within(Setup& setup, Experiment experiment, const std::string& budget);

}  // namespace lacuna::apps
