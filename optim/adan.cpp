// Adan (Xie et al. 2022) as timm.optim.Adan. As Adan-R (Dong and Lin 2024,
// algorithm 2), the gradient becomes the previous one as it passes; differences
// and denominators live in registers only.
#include "optim/rule_optimizer.h"

namespace lacuna {
namespace {

struct AdanOptions : DecayOptions, AdanSettings {
  static Fields fields() {
    return rows_of_base<AdanOptions, DecayOptions>() +
           Fields{field<AdanOptions>("beta1", &AdanOptions::beta1, below(1), "decay of the running mean of gradients"),
                  field<AdanOptions>("beta2", &AdanOptions::beta2, below(1),
                                     "decay of the running mean of gradient differences"),
                  field<AdanOptions>("beta3", &AdanOptions::beta3, below(1), "decay of the running mean of squares"),
                  field<AdanOptions>("eps", &AdanOptions::eps, "added to the denominator"),
                  field<AdanOptions>("no_prox", &AdanOptions::no_prox,
                                     "decay weights before the update, as AdamW does, not by division after it")};
  }
};

class Adan final : public RuleOptimizer<AdanRule> {
 public:
  static constexpr std::string_view name = "adan";
  static AdanOptions defaults() { return {}; }

  Adan(const AdanOptions& options, const OptimizerConfig& config)
      : RuleOptimizer({options}, config,
                      {{"exp_avg"},
                       {"exp_avg_diff"},
                       {"exp_avg_sq", StateValues::no_sign},
                       // Its error is squared: unbiased draws would not be unbiased
                       // after it.
                       {"pre_grad", StateValues::any_sign, StatePrecision::bf16}}) {}
};

const RegisterOptimizer<Adan> adan;

}  // namespace
}  // namespace lacuna
