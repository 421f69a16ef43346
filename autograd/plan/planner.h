// The planner: finds a memory plan for a memory budget.
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
  bool of_saved = false;           // the budget is for bytes saved for backward; otherwise for the memory peak:
  std::int64_t beside_step = 0;    // bytes held in addition to the step's own memory,
  std::int64_t floor = 0;          // and the minimum of the peak, for needs outside the step
  bool quantize = true;            // otherwise plans are exact: they choose recomputed regions and kept tensors only
  std::int64_t group_size = 256;   // elements that share a range
  std::int64_t micro_batches = 1;  // per step
  OffloadStore* store = nullptr;   // a store on `meta`; null: nothing is offloaded
  std::int64_t store_budget = 0;   // capacity of the store in bytes; 0: unlimited
  CostTable costs{};
  /// Returns, by a tensor's key, the gradient variance due to an error as large as the tensor, relative to the squared
  /// gradient. Called once, and only if tensors are quantized. Missing tensors get a sensitivity by their size.
  std::function<std::map<std::string, double>()> sensitivities = [] { return std::map<std::string, double>(); };
  double usual_sensitivity = 1;  // sum over all tensors, to derive a sensitivity by size
  double noise_price = 1;        // the share of an exact step's time that a variance of the squared gradient is worth
};

struct PlannerResult {
  MemoryPlan plan;  // if nothing fits, the plan with the fewest bytes
  bool fits = true;
};

/// Finds the plan within the budget with the least MemoryPlan::cost: predicted time times one plus the variance due to
/// quantization.
///
/// Sets of recomputed regions are tried along chains, in which each set takes fewer bytes and more time than the one
/// before (region_chains.h). For each set, a step on `meta` is recorded as a StepGraph, and the remaining bytes are
/// divided among its tensors by the cost they save (`choose_ways`). Steps on `meta` confirm the best few plans, so
/// their bytes are exact.
PlannerResult plan_memory(const PlannerOptions& options);

}  // namespace lacuna
