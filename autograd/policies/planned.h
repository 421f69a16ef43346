// The policy `planned`: replays a memory plan with one hash lookup per tensor and region.
#pragma once

#include "autograd/plan/memory_plan.h"
#include "autograd/policy.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lacuna {

/// The hold of a tensor with `bits`. `quantizes`: whether the plan quantizes any tensor, so that rematerialized values
/// may be approximate. Inputs of the program (images) get 8 bits for any `bits` below exact_bits.
Hold planned_hold(const SavedTensorInfo& info, int bits, bool quantizes, std::int64_t group_size);

/// Options of the policy `auto`.
struct AutoOptions {
  bool codes = true;
  std::int64_t group_size = MemoryPlan{}.group_size;
  double noise_price = 1;

  static Fields fields();
};

/// The regions of a plan, found by hash.
class PlannedRegions {
 public:
  explicit PlannedRegions(const std::vector<std::string>& regions);
  /// See MemoryPolicy::recomputes.
  std::int64_t recomputes(const ModuleRange& modules, std::string_view within);
  /// Regions that matched no module so far.
  std::vector<std::string> unused() const;

 private:
  struct Region {
    std::int64_t count = 1;  // number of blocks
    bool used = false;
  };
  std::unordered_map<std::string, Region> regions_;
  std::unordered_map<std::string, std::vector<std::string>> ranges_;  // by first block, the longest range first
};

class PlannedPolicy final : public MemoryPolicy {
 public:
  /// `name` is the policy's name. `store` holds the tensors that the plan offloads, and must outlive the policy; null:
  /// they stay in memory.
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
