// Lion (Chen et al. 2023) as timm.optim.Lion. Lion-R (Dong and Lin 2024,
// algorithm 3) keeps the interpolated gradient in the gradient's memory; in one
// pass it needs none.
#include "optim/rule_optimizer.h"

namespace lacuna {
namespace {

struct LionOptions : DecayOptions, LionSettings {
  static Fields fields() {
    return rows_of_base<LionOptions, DecayOptions>() +
           Fields{field<LionOptions>("beta1", &LionOptions::beta1, below(1),
                                     "weight of the running mean in the update's direction"),
                  field<LionOptions>("beta2", &LionOptions::beta2, below(1), "decay of the running mean of gradients")};
  }
};

class Lion final : public RuleOptimizer<LionRule> {
 public:
  static constexpr std::string_view name = "lion";
  static LionOptions defaults() { return {}; }

  Lion(const LionOptions& options, const OptimizerConfig& config) : RuleOptimizer({options}, config, {{"exp_avg"}}) {}
};

const RegisterOptimizer<Lion> lion;

}  // namespace
}  // namespace lacuna
