// Adagrad (Duchi et al. 2011) as torch.optim.Adagrad. Adagrad-R (Dong and Lin 2024) would keep the denominator in the
// gradient's memory; in one pass it lives in registers only.
#include "optim/rule_optimizer.h"

namespace lacuna {
namespace {

struct AdagradOptions : DecayOptions, AdagradSettings {
  static Fields fields() {
    return rows_of_base<AdagradOptions, DecayOptions>() +
           Fields{field<AdagradOptions>("lr_decay", &AdagradOptions::lr_decay,
                                        "update t divides the learning rate by 1 + (t - 1) * lr_decay"),
                  field<AdagradOptions>("eps", &AdagradOptions::eps, "added to the denominator")};
  }
};

class Adagrad final : public RuleOptimizer<AdagradRule> {
 public:
  static constexpr std::string_view name = "adagrad";
  static AdagradOptions defaults() { return {}; }

  Adagrad(const AdagradOptions& options, const OptimizerConfig& config)
      : RuleOptimizer({options}, config, {{"sum", StateValues::no_sign}}) {}
};

const RegisterOptimizer<Adagrad> adagrad;

}  // namespace
}  // namespace lacuna
