// The cost of preparing batches beside the step.
#pragma once

#include "apps/config/experiment.h"

#include <cstdint>
#include <optional>

namespace lacuna::apps {

/// Seconds of processor time in which one thread prepares a training batch: the mean over up to `batches`, after one
/// that warms up. Nothing where the configuration names no data.
std::optional<double> loader_cost(const Experiment& experiment, std::int64_t batches);

}  // namespace lacuna::apps
