// Bytes divided among the tensors of a step by what their bits are worth to the gradient.
#pragma once

#include "apps/memory_plan.h"
#include "apps/survey.h"
#include "autograd/bit_plan.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace lacuna::apps {

class Division {
 public:
  using Asked = std::function<bool(const MemoryPlan&)>;

  /// `tensors`, `derived`: of the step under `recompute`, no name in both. `sensitivity` [tensors]: as Sensitivities
  /// has it.
  Division(std::vector<Codable> tensors, const std::vector<double>& sensitivity, std::vector<Derivable> derived,
           RegionPaths recompute);

  /// What all tensors take in the fewest bits.
  std::int64_t fewest_bytes() const;

  /// The plan of least variance that `fits`, by choices that take up to `most` bytes; the fewest bits everywhere are to
  /// fit. Where one that `suffices` is found no more is looked for.
  MemoryPlan plan(std::int64_t most, const Asked& fits, const Asked& suffices) const;

 private:
  using Ways = std::vector<std::size_t>;  // of each tensor, then of each derived one: the place in `ways_`

  MemoryPlan plan_of(const Ways& ways) const;
  double variance(const Ways& ways) const;

  std::vector<Codable> tensors_;
  std::vector<Derivable> derived_;
  RegionPaths recompute_;
  std::vector<std::vector<HoldCost>> ways_;  // [tensors and derived ones], by bytes
};

}  // namespace lacuna::apps
