// Adan (Xie et al. 2022) as timm.optim.Adan. As Adan-R (Dong and Lin 2024,
// algorithm 2), the gradient becomes the previous one as it passes; differences
// and denominators live in registers only.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_update{
    adan_update, DeviceKind::cpu,
    [](const AdanSettings& settings, std::span<const Update> updates) { update_on_cpu(AdanRule{settings}, updates); }};

class Adan final : public Optimizer {
 public:
  static constexpr std::string_view name = "adan";
  static constexpr double weight_decay = 0;
  static std::vector<Setting> settings() {
    return {{"beta1", 0.98, below_one, "decay of the running mean of gradients"},
            {"beta2", 0.92, below_one, "decay of the running mean of their differences"},
            {"beta3", 0.99, below_one, "decay of the running mean of squares"},
            {"eps", 1e-8, not_negative, "added to the root of that mean"},
            {"no_prox",
             false,
             {},
             "whether weights decay before the update, as AdamW's, and not by "
             "division after it"}};
  }

  Adan(const Settings& settings, const OptimizerConfig& config)
      : Optimizer(config, {{"exp_avg"},
                           {"exp_avg_diff"},
                           {"exp_avg_sq", StateValues::no_sign},
                           // Its error is squared: unbiased draws would not be unbiased
                           // after it.
                           {"pre_grad", StateValues::any_sign, StatePrecision::bf16}}),
        settings_{.beta1 = settings.number("beta1"),
                  .beta2 = settings.number("beta2"),
                  .beta3 = settings.number("beta3"),
                  .eps = settings.number("eps"),
                  .no_prox = settings.flag("no_prox")} {}

  bool is_scale_invariant() const override { return true; }

 private:
  void update(std::span<const Update> updates) const override { adan_update(device_of(updates), settings_, updates); }

  AdanSettings settings_;
};

const RegisterOptimizer<Adan> adan;

}  // namespace
}  // namespace lacuna
