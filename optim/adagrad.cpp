// Adagrad (Duchi et al. 2011) as torch.optim.Adagrad. Adagrad-R (Dong and Lin 2024) would keep the denominator in the
// gradient's memory; in one pass it lives in registers only.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{adagrad_update, DeviceKind::cpu,
                                [](const AdagradSettings& settings, std::span<const Update> updates) {
                                  update_on_cpu(AdagradRule{settings}, updates);
                                }};

class Adagrad final : public Optimizer {
 public:
  static constexpr std::string_view name = "adagrad";
  static constexpr double weight_decay = 0;
  static std::vector<Setting> settings() {
    return {{"lr_decay", 0.0, not_negative, "in update t the learning rate is divided by 1 + (t - 1) * lr_decay"},
            {"eps", 1e-10, not_negative, "added to the root of the sum"}};
  }

  Adagrad(const Settings& settings, const OptimizerConfig& config)
      : Optimizer(config, {{"sum", StateValues::no_sign}}),
        settings_{.lr_decay = settings.number("lr_decay"), .eps = settings.number("eps")} {}

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
