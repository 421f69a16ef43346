// Memory plans: how each saved tensor of a training step is held, and which regions are recomputed.
#pragma once

#include "autograd/plan/bit_allocation.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// A plan. The planner creates it, a run folder stores it as plan.json, and the policy `planned` replays it. Tensors
/// missing from the plan are held as by the policy `exact`.
struct MemoryPlan {
  struct Choice {
    int bits = exact_bits;   // per element; exact_bits: unquantized
    bool kept = false;       // kept, though it could be rematerialized
    bool offloaded = false;  // in a file between forward and backward
    bool operator==(const Choice&) const = default;
  };
  std::map<std::string, Choice> tensors{};  // by SavedTensorInfo::key()
  std::vector<std::string> regions{};       // modules (`blocks.3`) or consecutive blocks (`blocks.4-7`)
  std::int64_t group_size = 256;            // elements that share a range

  // The planner's predictions.
  std::int64_t bytes = 0;  // bytes of the budget used
  double seconds = 1;      // time of a step, relative to a step that keeps every tensor exactly
  double variance = 0;     // gradient variance due to quantization, relative to the squared gradient
  std::string text{};      // the plan in words

  bool quantizes() const;
  bool offloads() const;
  /// The time for equal progress: with gradient variance v, a step makes 1 / (1 + v) of the progress.
  double cost() const { return seconds * (1 + variance); }
  bool operator==(const MemoryPlan&) const = default;
};

std::string to_json(const MemoryPlan& plan);
/// Parses a plan. Rejects text that `to_json` cannot have written; `source` names the file in messages.
MemoryPlan parse_plan(std::string_view json, const std::string& source);

}  // namespace lacuna
