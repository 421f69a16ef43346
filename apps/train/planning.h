// Memory plans for configurations whose policy is `auto`.
#pragma once

#include "apps/config/experiment.h"
#include "autograd/plan/planner.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace lacuna::apps {

/// Bytes from text as `6GiB`, `1.5GB`, `800MiB` or `1048576`; rejects anything else as the value of `key`.
std::int64_t parse_bytes(const std::string& text, std::string_view key = "memory.budget");

/// Gives a configuration whose policy is `auto` its memory plan; leaves others as they are. Builds the
/// model once, on `meta`.
///
/// The plan is that of the file `memory.plan`, if one is named: rejected, with its keys, where it is for another step
/// or over the budget. Else that of `recorded`, the plan.json of a run that goes on, if it is there and still fits.
/// Else one is made for `memory.budget`: rejected, with the smallest budget that suffices, where no plan fits.
void plan_memory(Experiment& experiment, const CostTable& costs, const std::filesystem::path& recorded = {});
/// The same with the costs of this machine (machine_costs).
void plan_memory(Experiment& experiment, const std::filesystem::path& recorded = {});

/// The plan of `auto` for a training step within `budget` bytes in all. Nothing is computed.
PlannerResult plan_within(Experiment experiment, std::int64_t budget);

}  // namespace lacuna::apps
