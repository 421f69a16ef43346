// A memory plan: how each saved tensor of one training step is held, and which regions are recomputed.
#pragma once

#include "autograd/plan/bit_allocation.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// A plan is a value: the planner makes it, a run folder keeps it as plan.json, and the policy `planned` replays it.
/// A tensor that is not named is held as the policy `exact` holds it.
struct MemoryPlan {
  struct Choice {
    int bits = exact_bits;   // of an element; exact_bits: the tensor itself
    bool kept = false;       // kept as it is, though it could be rematerialized
    bool offloaded = false;  // on a file between forward and backward
    bool operator==(const Choice&) const = default;
  };
  std::map<std::string, Choice> tensors{};  // by SavedTensorInfo::key()
  std::vector<std::string> regions{};       // modules (`blocks.3`) or consecutive blocks (`blocks.4-7`)
  std::int64_t group_size = 256;            // elements that share a range

  // Predictions of the planner.
  std::int64_t bytes = 0;  // of the budget
  double seconds = 1;      // of a step, relative to one that holds everything exactly
  double variance = 0;     // that quantization adds to the gradient, relative to its square
  std::string text{};      // the plan in words

  bool quantizes() const;
  bool offloads() const;
  /// Time for the same progress: a gradient with variance v takes a step 1 + v times less far.
  double cost() const { return seconds * (1 + variance); }
  bool operator==(const MemoryPlan&) const = default;
};

std::string to_json(const MemoryPlan& plan);
/// Rejects what `to_json` could not have written; `source` names the file in messages.
MemoryPlan parse_plan(std::string_view json, const std::string& source);

}  // namespace lacuna
