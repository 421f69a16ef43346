// The policy `planned`: replays a memory plan, one hash lookup for each tensor and region.
#pragma once

#include "autograd/plan/memory_plan.h"
#include "autograd/policy.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lacuna {

/// How a tensor is held in `bits`. `quantizes`: the plan quantizes some tensor, so that values rematerialized from it
/// may be approximate. Images get 8 bits, whatever `bits` says below exact_bits.
Hold planned_hold(const SavedTensorInfo& info, int bits, bool quantizes, std::int64_t group_size);

/// The regions of a plan, found by hash.
class PlannedRegions {
 public:
  explicit PlannedRegions(const std::vector<std::string>& regions);
  /// As MemoryPolicy::recomputes.
  std::int64_t recomputes(const ModuleRange& modules, std::string_view within);
  /// Regions that no module was asked for.
  std::vector<std::string> unused() const;

 private:
  struct Region {
    std::int64_t count = 1;  // of blocks
    bool used = false;
  };
  std::unordered_map<std::string, Region> regions_;
  std::unordered_map<std::string, std::vector<std::string>> ranges_;  // by their first block, the longest first
};

class PlannedPolicy final : public MemoryPolicy {
 public:
  /// `name` is how the policy calls itself. `store` is for what the plan offloads, and outlives the policy; null: that
  /// stays in memory.
  explicit PlannedPolicy(MemoryPlan plan, std::string_view name = "planned", OffloadStore* store = nullptr);
  std::string_view name() const override { return name_; }
  Hold decide(const SavedTensorInfo& info) override;
  std::int64_t recomputes(const ModuleRange& modules, std::string_view within) override {
    return regions_.recomputes(modules, within);
  }
  /// Plan entries that matched no tensor or region so far: a line for tensors, by key, and one for regions.
  std::vector<std::string> unmatched() const;

 private:
  struct Planned {
    MemoryPlan::Choice choice;
    bool used = false;
  };
  std::string name_;
  OffloadStore* store_;
  std::int64_t group_size_;
  std::unordered_map<std::string, Planned> tensors_;  // by key
  PlannedRegions regions_;
};

}  // namespace lacuna
