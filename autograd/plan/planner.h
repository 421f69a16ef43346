// The planner: finds a memory plan for a memory budget.
#pragma once

#include "autograd/plan/step_graph.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace lacuna {

/// By a tensor's key, the gradient variance due to an error as large as the tensor, relative to the squared gradient.
struct MeasuredSensitivities {
  std::map<std::string, double> values{};
  std::string source = "by size, not measured";  // in words
};

struct PlannerOptions {
  MetaStep step;
  std::int64_t budget = 0;
  bool of_saved = false;          // the budget is for bytes saved for backward; otherwise for the memory peak:
  std::int64_t beside_step = 0;   // bytes held in addition to the step's own memory,
  std::int64_t floor = 0;         // and the minimum of the peak, for needs outside the step
  bool fill = false;              // where everything exact fits, what it would compute again is kept, as far as it fits
  bool quantize = true;           // otherwise plans are exact: they choose recomputed regions and kept tensors only
  std::int64_t group_size = 256;  // elements that share a range
  std::int64_t micro_batches = 1;  // per step
  OffloadStore* store = nullptr;   // a store on `meta`; null: nothing is offloaded
  std::int64_t store_budget = 0;   // capacity of the store in bytes; 0: unlimited
  CostTable costs{};
  /// Called once, and only if tensors are quantized. Missing tensors get a sensitivity by their size.
  std::function<MeasuredSensitivities()> sensitivities = [] { return MeasuredSensitivities(); };
  double usual_sensitivity = 1;  // sum over all tensors, to derive a sensitivity by size
  double noise_price = 1;        // see plan_memory
};

struct PlannerResult {
  MemoryPlan plan;  // if nothing fits, the plan with the fewest bytes
  bool fits = true;
};

/// Finds the plan within the budget with the least time + noise_price * variance: the predicted time of a step relative
/// to an exact one, and the gradient's variance due to quantization relative to the squared gradient.
///
/// One step on `meta` is recorded as a StepGraph. On it, the regions to recompute are chosen (region_choice.h). A step
/// with these regions divides the remaining bytes among its tensors by the cost they save (`choose_ways`), and steps
/// under the plan confirm it, so its bytes are exact.
PlannerResult plan_memory(const PlannerOptions& options);

}  // namespace lacuna
