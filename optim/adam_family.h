// The running means that Adam, AdamW and LAMB share.
#pragma once

#include "optim/kernels.h"
#include "optim/optimizer.h"

#include <cmath>

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

/// The formula of update number `step`, from 1.
inline formula::AdamMoments adam_moments(const AdamSettings& settings, std::int64_t step) {
  const auto t = static_cast<double>(step);
  return {.take1 = static_cast<float>(1 - settings.beta1),
          .beta2 = static_cast<float>(settings.beta2),
          .take2 = static_cast<float>(1 - settings.beta2),
          .eps = static_cast<float>(settings.eps),
          .correction = static_cast<float>(1 / (1 - std::pow(settings.beta1, t))),
          .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(settings.beta2, t)))};
}

}  // namespace lacuna
