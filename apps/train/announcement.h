// The lines about a run's samples and weights before the first step.
#pragma once

#include "apps/train/setup.h"

#include <string>
#include <vector>

namespace lacuna::apps {

/// Lines about the samples, and about settings that hardly fit them: images far smaller than the model's, and a warm-up
/// that is the whole run.
std::vector<std::string> announce_samples(const Experiment& experiment, const Dataset& training,
                                          const Dataset& validation, std::int64_t steps_per_epoch);

/// Lines about frozen parameters, the weights and their source. Warns on standard error of frozen parameters with
/// random weights, and of images with other statistics than the weights'. `resumed`: from a step after the first;
/// `started_anew`: parameters whose optimizer state starts at zero then.
std::vector<std::string> announce_weights(const Experiment& experiment, const Setup& setup, bool resumed,
                                          std::int64_t started_anew, const std::string& frozen);

}  // namespace lacuna::apps
