// The running means that Adam, AdamW and LAMB share.
#pragma once

#include "optim/rule_optimizer.h"

namespace lacuna {

struct AdamOptions : DecayOptions, AdamSettings {
  static Fields fields() {
    return rows_of_base<AdamOptions, DecayOptions>() +
           Fields{field<AdamOptions>("beta1", &AdamOptions::beta1, below(1), "decay of the running mean of gradients"),
                  field<AdamOptions>("beta2", &AdamOptions::beta2, below(1),
                                     "decay of the running mean of squared gradients"),
                  field<AdamOptions>("eps", &AdamOptions::eps, "added to the denominator")};
  }
};

inline std::vector<StateKind> adam_states() { return {{"exp_avg"}, {"exp_avg_sq", StateValues::no_sign}}; }

}  // namespace lacuna
