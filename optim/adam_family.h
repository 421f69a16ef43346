// The running means that Adam, AdamW and LAMB share.
#pragma once

#include "optim/kernels.h"
#include "optim/optimizer.h"

namespace lacuna {

class AdamFamily : public Optimizer {
 public:
  static std::vector<Setting> settings(double eps) {
    return {{"beta1", 0.9, below_one, "decay of the running mean of gradients"},
            {"beta2", 0.999, below_one, "decay of the running mean of squared gradients"},
            {"eps", eps, not_negative, "added to the root of the second mean"}};
  }

  bool is_scale_invariant() const override { return true; }

 protected:
  explicit AdamFamily(const OptimizerConfig& config)
      : Optimizer(config, {{"exp_avg"}, {"exp_avg_sq", StateValues::no_sign}}) {}

  static AdamSettings adam_settings(const Settings& settings, bool decoupled) {
    return {.beta1 = settings.number("beta1"),
            .beta2 = settings.number("beta2"),
            .eps = settings.number("eps"),
            .decoupled = decoupled};
  }
};

}  // namespace lacuna
