// The planner: a memory budget turned into a plan.
#pragma once

#include "autograd/plan/step_graph.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace lacuna {

struct PlannerOptions {
  MetaStep step;
  std::int64_t budget = 0;
  bool of_saved = false;         // counts bytes saved for backward; otherwise all memory at its highest:
  std::int64_t beside_step = 0;  // what is held besides the step's own memory,
  std::int64_t floor = 0;        // and what is needed apart from it
  bool quantize = true;  // otherwise exact means alone: recomputation, and what is kept of rematerialized tensors
  std::int64_t group_size = 256;   // elements that share a range
  std::int64_t micro_batches = 1;  // of a step
  OffloadStore* store = nullptr;   // of `meta`; null: nothing is offloaded
  std::int64_t store_budget = 0;   // bytes that it takes; 0: any number
  CostTable costs{};
  /// Variance of the gradient, relative to its square, that an error as large as a tensor would cause, by the tensor's
  /// key. Asked once, and only where tensors are quantized. A tensor that is not named counts by its size.
  std::function<std::map<std::string, double>()> sensitivities = [] { return std::map<std::string, double>(); };
  double usual_sensitivity = 1;  // of all tensors together
};

struct PlannerResult {
  MemoryPlan plan;  // where nothing fits: the one that takes least
  bool fits = true;
};

/// The plan with the least predicted time, times one plus the variance of its quantization, that fits the budget.
///
/// Sets of recomputed regions are tried along chains, in which each takes fewer bytes and more time than the one before
/// (region_chains.h). A step on `meta` records each set that is tried as a StepGraph, under which the bytes left are
/// divided among tensors by what their bits save (`choose_ways`). The best few plans are confirmed by steps on `meta`,
/// so that their bytes are exact.
PlannerResult plan_memory(const PlannerOptions& options);

}  // namespace lacuna
