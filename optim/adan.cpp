// Adan (Xie et al. 2022) as timm.optim.Adan. As Adan-R (Dong and Lin 2024,
// algorithm 2), the gradient becomes the previous one as it passes; differences
// and denominators live in registers only.
#include "optim/elementwise.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

#include <cmath>

namespace lacuna {
namespace {

const RegisterKernel cpu_update{
    adan_update, DeviceKind::cpu, [](const AdanSettings& s, const Update& what) {
      const CpuUpdate begun = begin_on_cpu(what);
      if (!begun) return;
      const auto t = static_cast<double>(begun.step);
      const double decay = what.lr * what.weight_decay;
      update_elements<4>(
          formula::AdanStep{.counted = begun.counted,
                            .take1 = static_cast<float>(1 - s.beta1),
                            .beta2 = static_cast<float>(s.beta2),
                            .take2 = static_cast<float>(1 - s.beta2),
                            .beta3 = static_cast<float>(s.beta3),
                            .take3 = static_cast<float>(1 - s.beta3),
                            .eps = static_cast<float>(s.eps),
                            .mean_size = static_cast<float>(what.lr / (1 - std::pow(s.beta1, t))),
                            .difference_size = static_cast<float>(what.lr * s.beta2 / (1 - std::pow(s.beta2, t))),
                            .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta3, t))),
                            .decay_before = s.no_prox ? static_cast<float>(1 - decay) : 1,
                            .decay_after = s.no_prox ? 1 : static_cast<float>(1 / (1 + decay)),
                            .has_previous = begun.step == 1 ? 0.0F : 1.0F},
          what, begun.key);
    }};

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
  void update(const Update& what) const override { adan_update(what.parameter.device(), settings_, what); }

  AdanSettings settings_;
};

const RegisterOptimizer<Adan> adan;

}  // namespace
}  // namespace lacuna
