// Stochastic gradient descent as torch.optim.SGD.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"
#include "optim/rules.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{sgd_update, DeviceKind::cpu,
                                [](const SgdSettings& settings, std::span<const Update> updates) {
                                  with_sgd_rule(settings, [&](const auto& rule) { update_on_cpu(rule, updates); });
                                }};

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
  void update(std::span<const Update> updates) const override { sgd_update(device_of(updates), settings_, updates); }

  SgdSettings settings_;
};

const RegisterOptimizer<Sgd> sgd;

}  // namespace
}  // namespace lacuna
