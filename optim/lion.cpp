// Lion (Chen et al. 2023) as timm.optim.Lion. Lion-R (Dong and Lin 2024,
// algorithm 3) keeps the interpolated gradient in the gradient's memory; in one
// pass it needs none.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{
    lion_update, DeviceKind::cpu,
    [](const LionSettings& settings, std::span<const Update> updates) { update_on_cpu(LionRule{settings}, updates); }};

class Lion final : public Optimizer {
 public:
  static constexpr std::string_view name = "lion";
  static constexpr double weight_decay = 0;
  static std::vector<Setting> settings() {
    return {{"beta1", 0.9, below_one, "share of the running mean in the direction"},
            {"beta2", 0.99, below_one, "decay of the running mean of gradients"}};
  }

  Lion(const Settings& settings, const OptimizerConfig& config)
      : Optimizer(config, {{"exp_avg"}}),
        settings_{.beta1 = settings.number("beta1"), .beta2 = settings.number("beta2")} {}

  bool is_scale_invariant() const override { return true; }

 private:
  void update(std::span<const Update> updates) const override { lion_update(device_of(updates), settings_, updates); }

  LionSettings settings_;
};

const RegisterOptimizer<Lion> lion;

}  // namespace
}  // namespace lacuna
