// Lion (Chen et al. 2023) as timm.optim.Lion. Lion-R (Dong and Lin 2024,
// algorithm 3) keeps the interpolated gradient in the gradient's memory; in one
// pass it needs none.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"
#include "optim/rules.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{
    lion_update, DeviceKind::cpu,
    [](const LionSettings& settings, std::span<const Update> updates) { update_on_cpu(LionRule{settings}, updates); }};

struct LionOptions : DecayOptions, LionSettings {
  static Fields fields() {
    return rows_of_base<LionOptions, DecayOptions>() +
           Fields{field<LionOptions>("beta1", &LionOptions::beta1, below(1),
                                     "weight of the running mean in the update's direction"),
                  field<LionOptions>("beta2", &LionOptions::beta2, below(1), "decay of the running mean of gradients")};
  }
};

class Lion final : public Optimizer {
 public:
  static constexpr std::string_view name = "lion";
  static LionOptions defaults() { return {}; }

  Lion(const LionOptions& options, const OptimizerConfig& config)
      : Optimizer(config, {{"exp_avg"}}), settings_(options) {}

  bool is_scale_invariant() const override { return true; }

 private:
  void update(std::span<const Update> updates) const override { lion_update(device_of(updates), settings_, updates); }

  LionSettings settings_;
};

const RegisterOptimizer<Lion> lion;

}  // namespace
}  // namespace lacuna
