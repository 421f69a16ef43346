// Stochastic gradient descent as torch.optim.SGD.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{sgd_update, DeviceKind::cpu,
                                [](const SgdSettings& settings, std::span<const Update> updates) {
                                  with_sgd_rule(settings, [&](const auto& rule) { update_on_cpu(rule, updates); });
                                }};

class Sgd final : public Optimizer {
 public:
  static constexpr std::string_view name = "sgd";
  static constexpr double weight_decay = 0;
  static std::vector<Setting> settings() {
    return {{"momentum", 0.0, below_one, "decay of the running sum of gradients"},
            {"nesterov", false, {}, "whether the step looks one gradient ahead"}};
  }

  Sgd(const Settings& settings, const OptimizerConfig& config)
      : Optimizer(config, settings.number("momentum") > 0 ? std::vector<StateKind>{{"momentum_buffer"}}
                                                          : std::vector<StateKind>{}),
        settings_{.momentum = static_cast<float>(settings.number("momentum")), .nesterov = settings.flag("nesterov")} {
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
