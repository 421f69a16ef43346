// A memory policy named on the command line, as `fixed:4`.
#pragma once

#include "apps/config/experiment.h"

#include <string>

namespace lacuna::apps {

/// `read`, resolved, under `choice`: NAME, NAME:BITS, or of `auto` NAME:BUDGET, which is not planned yet.
Experiment with_policy(const Experiment& read, const std::string& choice);
/// The same, planned where that is `auto`.
Experiment under_policy(const Experiment& read, const std::string& choice);

/// The policy, with its bits or its budget where it has any: `fixed:4`, `auto:6GiB`.
std::string policy_title(const Experiment& experiment);

}  // namespace lacuna::apps
