// Class-weighted samplers for imbalanced data sets.
#pragma once

#include "data/pipeline.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// Number of samples per class, [classes]. A label outside [0, classes) is the input's fault.
std::vector<std::int64_t> count_classes(const Dataset& samples, std::int64_t classes);

/// Draws size() samples per epoch with replacement, each with a probability proportional to the weight of its class
/// (torch.utils.data.WeightedRandomSampler). The draw is a function of (seed, epoch, position). weights: [classes],
/// each 0 or more.
DatasetPtr sample_by_weight(DatasetPtr source, std::span<const double> weights, std::uint64_t seed);
/// The same with weights that make all non-empty classes equally frequent.
DatasetPtr sample_balanced(DatasetPtr source, std::int64_t classes, std::uint64_t seed);

}  // namespace lacuna
