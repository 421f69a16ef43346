// What Adam, AdamW and LAMB have in common: two running means and their settings.
#pragma once

#include "optim/optimizer.h"

#include <cmath>

namespace lacuna {

class AdamFamily : public Optimizer {
 public:
  static std::vector<Setting> settings(double eps) {
    return {{"beta1", 0.9, below_one, "decay of the gradients' running mean"},
            {"beta2", 0.999, below_one, "decay of the squared gradients' running mean"},
            {"eps", eps, not_negative, "added to the root of that mean"}};
  }

  bool is_scale_invariant() const override { return true; }

 protected:
  AdamFamily(const Settings& settings, const Trained& trained)
      : Optimizer(trained, {{"exp_avg"}, {"exp_avg_sq", StateValues::no_sign}}),
        beta1_(settings.number("beta1")),
        beta2_(settings.number("beta2")),
        eps_(settings.number("eps")) {}

  /// Of a parameter's step `step`, from 1.
  formula::AdamMoments moments(std::int64_t step) const {
    const auto t = static_cast<double>(step);
    return {.take1 = static_cast<float>(1 - beta1_),
            .beta2 = static_cast<float>(beta2_),
            .take2 = static_cast<float>(1 - beta2_),
            .eps = static_cast<float>(eps_),
            .correction = static_cast<float>(1 / (1 - std::pow(beta1_, t))),
            .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2_, t)))};
  }

 private:
  double beta1_, beta2_, eps_;
};

}  // namespace lacuna
