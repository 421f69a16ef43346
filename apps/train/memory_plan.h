// What `auto` plans: in how many bits tensors are held, what is kept though it could be derived, and what runs again.
#pragma once

#include "apps/config/configuration.h"
#include "apps/train/regions.h"
#include "apps/train/survey.h"
#include "autograd/plan/bit_allocation.h"

#include <map>
#include <string>
#include <vector>

namespace lacuna::apps {

struct MemoryPlan {
  int bits = exact_bits;                    // of tensors that can be coded
  std::map<SavedTensorName, int> others{};  // of those that have another number
  RegionPaths recompute{};
  std::vector<SavedTensorName> kept{};  // though they could be derived

  int bits_of(const SavedTensorName& tensor) const;
  bool has_codes() const { return bits != exact_bits || !others.empty(); }
};

/// Writes the plan into `memory`: `bits`, `rules` and `recompute`, in the place of what stands there.
void write_plan(const MemoryPlan& plan, Configuration::Memory& memory);
/// The plan that was written into `memory`, of the step `found` under its regions. Older ones have rules for an op of a
/// path: for all of its tensors.
MemoryPlan read_plan(const Configuration::Memory& memory, const StepSurvey& found);

/// In words, as `3 tensors in 4 bits`; `found`: the step under the plan's regions.
std::vector<std::string> describe(const MemoryPlan& plan, const StepSurvey& found, const RegionChoices& choices);

/// As `1 region` and `2 regions`.
std::string counted(std::ptrdiff_t count, std::string_view what);

}  // namespace lacuna::apps
