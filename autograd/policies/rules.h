// User rules on top of a policy, for single tensors and for regions to recompute.
#pragma once

#include "autograd/policy.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

/// A rule for the tensors that match. The first rule that applies wins.
struct HoldRule {
  enum class How : std::uint8_t { keep, exact, quantize, slope, recompute };
  std::string path = "*";   // glob on the path of the module that made the tensor; for `recompute`: of the region
  std::string op = "*";     // glob on the op that made it
  std::string slot = "*";   // glob on the tensor's name within the module (SavedTensorInfo::name)
  std::string user = "*";   // glob on the ops that read it; one must match
  How how = How::exact;     // exact: as the policy `exact`
  int bits = 8;             // for `code`
  bool by_columns = false;  // group columns within heads or channels, not runs
  std::int64_t group_size = 256;

  static Fields fields();
  std::string problem() const;
  bool operator==(const HoldRule&) const = default;
};

/// Parses a `hold` of a configuration: `keep`, `exact`, `int1` to `int8`, `slope2`, `recompute`. Empty for other texts.
std::optional<std::pair<HoldRule::How, int>> parse_hold(std::string_view text);
std::string hold_text(const HoldRule& rule);

/// A policy that applies the rules first and asks `base` about the other tensors.
class RuledPolicy final : public MemoryPolicy {
 public:
  /// `recompute`: glob patterns on paths of modules and module sequences, or runs of blocks.
  RuledPolicy(std::unique_ptr<MemoryPolicy> base, std::vector<HoldRule> rules, std::vector<std::string> recompute);
  ~RuledPolicy() override;

  /// Offloads tensors to the store from now on, and owns it. `all`: offloads all tensors except those of a `keep` rule;
  /// if false, the base policy chooses the tensors.
  void set_store(std::shared_ptr<OffloadStore> store, bool all) {
    store_ = std::move(store);
    offloads_all_ = all;
  }
  OffloadStore* store() const { return store_.get(); }

  MemoryPolicy& base() { return *base_; }
  const MemoryPolicy& base() const { return *base_; }
  /// The rules and patterns that have matched nothing so far, one line each with the reason.
  std::vector<std::string> unmatched() const;

  std::string_view name() const override { return base_->name(); }
  Hold decide(const SavedTensorInfo& info) override;
  std::int64_t recomputes(const ModuleRange& modules, std::string_view within) override;
  std::map<std::string, Tensor> state() const override { return base_->state(); }
  void set_state(const std::map<std::string, Tensor>& state) override { base_->set_state(state); }
  TensorFigures figures() const override { return base_->figures(); }

 private:
  class RuleUses;
  struct Region {
    std::string pattern;
    const HoldRule* rule = nullptr;  // the entry of rules_ that names it
    bool used = false;
  };
  std::string offered_beside(const std::string& pattern) const;
  Hold decide_in_memory(const SavedTensorInfo& info, bool& stays);

  std::shared_ptr<OffloadStore> store_{};  // null: everything stays in memory
  bool offloads_all_ = false;
  std::unique_ptr<MemoryPolicy> base_;
  std::vector<HoldRule> rules_;
  std::unique_ptr<RuleUses> uses_;
  std::vector<Region> regions_;
  std::vector<std::string> offered_;  // regions that could have been recomputed
};

std::unique_ptr<RuledPolicy> with_rules(std::unique_ptr<MemoryPolicy> base, std::vector<HoldRule> rules,
                                        std::vector<std::string> recompute = {});

}  // namespace lacuna
