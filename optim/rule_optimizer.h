// Optimizers that update each element by itself.
#pragma once

#include "optim/kernels.h"
#include "optim/optimizer.h"
#include "optim/rules.h"

#include <span>
#include <vector>

namespace lacuna {

/// A pass by a rule over some parameters, at least one.
template <class Rule>
void update_by(const Rule& rule, std::span<const Update> updates) {
  rule_pass<Rule>(device_of(updates), rule, updates);
}

/// One pass updates all.
template <class Rule>
class RuleOptimizer : public Optimizer {
 protected:
  RuleOptimizer(const Rule& rule, const OptimizerConfig& config, std::vector<StateKind> kinds)
      : Optimizer(config, std::move(kinds)), rule_(rule) {}

 private:
  void update(std::span<const Update> updates) const override { update_by(rule_, updates); }

  Rule rule_;
};

}  // namespace lacuna
