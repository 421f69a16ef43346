// Adam with weight decay in the gradient (torch.optim.Adam) or decoupled from
// it (torch.optim.AdamW), as AdamW-R (Dong and Lin 2024, algorithm 1): the
// denominator lives in registers only.
#include "optim/adam_family.h"

namespace lacuna {
namespace {

template <bool decoupled>
class AdamLike final : public RuleOptimizer<AdamRule> {
 public:
  static constexpr std::string_view name = decoupled ? "adamw" : "adam";
  static AdamOptions defaults() {
    AdamOptions options;
    options.weight_decay = decoupled ? 0.01 : 0;
    options.decoupled = decoupled;
    return options;
  }
  AdamLike(const AdamOptions& options, const OptimizerConfig& config)
      : RuleOptimizer({options}, config, adam_states()) {}
};

const RegisterOptimizer<AdamLike<false>> adam;
const RegisterOptimizer<AdamLike<true>> adamw;

}  // namespace
}  // namespace lacuna
