// Adagrad (Duchi et al. 2011) as torch.optim.Adagrad. Adagrad-R (Dong and Lin 2024) would keep the denominator in the
// gradient's memory; in one pass it lives in registers only.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"
#include "optim/rules.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{adagrad_update, DeviceKind::cpu,
                                [](const AdagradSettings& settings, std::span<const Update> updates) {
                                  update_on_cpu(AdagradRule{settings}, updates);
                                }};

struct AdagradOptions : DecayOptions, AdagradSettings {
  static Fields fields() {
    return rows_of_base<AdagradOptions, DecayOptions>() +
           Fields{field<AdagradOptions>("lr_decay", &AdagradOptions::lr_decay,
                                        "update t divides the learning rate by 1 + (t - 1) * lr_decay"),
                  field<AdagradOptions>("eps", &AdagradOptions::eps, "added to the denominator")};
  }
};

class Adagrad final : public Optimizer {
 public:
  static constexpr std::string_view name = "adagrad";
  static AdagradOptions defaults() { return {}; }

  Adagrad(const AdagradOptions& options, const OptimizerConfig& config)
      : Optimizer(config, {{"sum", StateValues::no_sign}}), settings_(options) {}

  bool is_scale_invariant() const override { return true; }

 private:
  void update(std::span<const Update> updates) const override {
    adagrad_update(device_of(updates), settings_, updates);
  }

  AdagradSettings settings_;
};

const RegisterOptimizer<Adagrad> adagrad;

}  // namespace
}  // namespace lacuna
