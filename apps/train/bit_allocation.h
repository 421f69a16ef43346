// Bytes allocated to the tensors of a step by what their bits are worth to the gradient.
#pragma once

#include "apps/train/memory_plan.h"
#include "apps/train/regions.h"
#include "apps/train/survey.h"
#include "autograd/plan/bit_allocation.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace lacuna::apps {

class BitAllocation {
 public:
  using Predicate = std::function<bool(const MemoryPlan&)>;

  /// `tensors`, `derived`: of the step under `recompute`, no name in both. `sensitivity` [tensors]: as Sensitivities
  /// has it.
  BitAllocation(std::vector<Codable> tensors, const std::vector<double>& sensitivity,
                std::vector<Rematerializable> derived, RegionPaths recompute);

  /// What all tensors take in the fewest bits.
  std::int64_t fewest_bytes() const;

  /// The plan of least variance for the most bytes, up to `most`, at which it fits; single tensors then get more bits
  /// while that fits, and until it `suffices`. The fewest bits everywhere are to fit.
  MemoryPlan plan(std::int64_t most, const Predicate& fits, const Predicate& suffices) const;

 private:
  using Ways = std::vector<std::size_t>;  // of each tensor, then of each derived one: the place in `ways_`

  MemoryPlan plan_of(const Ways& ways) const;
  double variance(const Ways& ways) const;

  std::vector<Codable> tensors_;
  std::vector<Rematerializable> derived_;
  RegionPaths recompute_;
  std::vector<std::vector<HoldCost>> ways_;  // [tensors and derived ones], by bytes
};

}  // namespace lacuna::apps
