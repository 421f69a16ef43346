// Adam with decoupled weight decay as torch.optim.AdamW does it.
#include "optim/elementwise.h"
#include "optim/formulas.h"
#include "optim/optimizer.h"

#include <cmath>

namespace lacuna {
namespace {

class AdamW final : public Optimizer {
 public:
  static constexpr std::string_view name = "adamw";
  static constexpr double weight_decay = 0.01;
  static std::vector<Setting> settings() {
    return {{"beta1", 0.9, below_one, "decay of the gradients' running mean"},
            {"beta2", 0.999, below_one, "decay of the squared gradients' running mean"},
            {"eps", 1e-8, not_negative, "added to the root of that mean"}};
  }

  AdamW(const Settings& settings, std::vector<ParameterGroup> groups)
      : Optimizer(std::move(groups), {"exp_avg", "exp_avg_sq"}),
        beta1_(settings.number("beta1")),
        beta2_(settings.number("beta2")),
        eps_(settings.number("eps")) {}

 private:
  void update(const Update& what) const override {
    const auto t = static_cast<double>(what.step);
    update_elements<2>(formula::AdamWStep{.decay = static_cast<float>(1 - what.lr * what.weight_decay),
                                          .step_size = static_cast<float>(what.lr / (1 - std::pow(beta1_, t))),
                                          .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t))),
                                          .beta1 = static_cast<float>(beta1_),
                                          .beta2 = static_cast<float>(beta2_),
                                          .eps = static_cast<float>(eps_),
                                          .gradient_factor = static_cast<float>(what.gradient_factor)},
                       what.parameter, what.gradient, what.state);
  }

  double beta1_, beta2_, eps_;
};

const RegisterOptimizer<AdamW> adamw;

}  // namespace
}  // namespace lacuna
