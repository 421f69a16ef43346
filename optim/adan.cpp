// Adan (Xie et al. 2022) as timm.optim.Adan does it, as Adan-R (Dong and Lin 2024, algorithm 2): the gradient takes the
// previous one's place as it passes, and differences and denominators need none.
#include "optim/elementwise.h"
#include "optim/optimizer.h"

#include <cmath>

namespace lacuna {
namespace {

class Adan final : public Optimizer {
 public:
  static constexpr std::string_view name = "adan";
  static constexpr double weight_decay = 0;
  static std::vector<Setting> settings() {
    return {
        {"beta1", 0.98, below_one, "decay of the gradients' running mean"},
        {"beta2", 0.92, below_one, "decay of the running mean of their differences"},
        {"beta3", 0.99, below_one, "decay of the running mean of squares"},
        {"eps", 1e-8, not_negative, "added to the root of that mean"},
        {"no_prox", false, {}, "whether weights decay before the update, as AdamW's, and not by division after it"}};
  }

  Adan(const Settings& settings, const Trained& trained)
      : Optimizer(trained, {{"exp_avg"},
                            {"exp_avg_diff"},
                            {"exp_avg_sq", StateValues::no_sign},
                            // Its error is squared, where unbiased draws no longer are.
                            {"pre_grad", StateValues::any_sign, StatePrecision::bf16}}),
        beta1_(settings.number("beta1")),
        beta2_(settings.number("beta2")),
        beta3_(settings.number("beta3")),
        eps_(settings.number("eps")),
        no_prox_(settings.flag("no_prox")) {}

  bool is_scale_invariant() const override { return true; }

 private:
  void update(const Update& what) const override {
    const auto t = static_cast<double>(what.step);
    const double decay = what.lr * what.weight_decay;
    update_elements<4>(
        formula::AdanStep{.counted = what.counted,
                          .take1 = static_cast<float>(1 - beta1_),
                          .beta2 = static_cast<float>(beta2_),
                          .take2 = static_cast<float>(1 - beta2_),
                          .beta3 = static_cast<float>(beta3_),
                          .take3 = static_cast<float>(1 - beta3_),
                          .eps = static_cast<float>(eps_),
                          .mean_size = static_cast<float>(what.lr / (1 - std::pow(beta1_, t))),
                          .difference_size = static_cast<float>(what.lr * beta2_ / (1 - std::pow(beta2_, t))),
                          .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(beta3_, t))),
                          .decay_before = no_prox_ ? static_cast<float>(1 - decay) : 1,
                          .decay_after = no_prox_ ? 1 : static_cast<float>(1 / (1 + decay)),
                          .has_previous = what.step == 1 ? 0.0F : 1.0F},
        what);
  }

  double beta1_, beta2_, beta3_, eps_;
  bool no_prox_;
};

const RegisterOptimizer<Adan> adan;

}  // namespace
}  // namespace lacuna
