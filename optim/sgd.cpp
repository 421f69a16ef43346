// Stochastic gradient descent as torch.optim.SGD.
#include "optim/rule_optimizer.h"

namespace lacuna {
namespace {

struct SgdOptions : DecayOptions, SgdSettings {
  static Fields fields() {
    return rows_of_base<SgdOptions, DecayOptions>() +
           Fields{field<SgdOptions>("momentum", &SgdOptions::momentum, below(1), "momentum"),
                  field<SgdOptions>("nesterov", &SgdOptions::nesterov, "Nesterov momentum")};
  }
};

class Sgd final : public Optimizer {
 public:
  static constexpr std::string_view name = "sgd";
  static SgdOptions defaults() { return {}; }

  Sgd(const SgdOptions& options, const OptimizerConfig& config)
      : Optimizer(config,
                  options.momentum > 0 ? std::vector<StateKind>{{"momentum_buffer"}} : std::vector<StateKind>{}),
        settings_(options) {
    if (settings_.nesterov && settings_.momentum == 0) reject("optimizer sgd: nesterov needs a momentum above 0");
  }

  bool is_scale_invariant() const override { return false; }

 private:
  void update(std::span<const Update> updates) const override {
    with_sgd_rule(settings_, [&](const auto& rule) { update_by(rule, updates); });
  }

  SgdSettings settings_;
};

const RegisterOptimizer<Sgd> sgd;

}  // namespace
}  // namespace lacuna
