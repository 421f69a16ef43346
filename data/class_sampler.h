// Samples drawn by their class, for data sets whose classes differ in size.
#pragma once

#include "data/pipeline.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// Samples of each class 0 to classes - 1. A label outside them is the input's fault.
std::vector<std::int64_t> count_classes(const Dataset& samples, std::int64_t classes);

/// As many samples as there are, drawn with replacement: each with a probability proportional to the weight of its
/// class (torch.utils.data.WeightedRandomSampler); a function of (seed, epoch, place). weights: [classes], 0 or more
/// each.
DatasetPtr sample_by_weight(DatasetPtr source, std::span<const double> weights, std::uint64_t seed);
/// The same with weights by which all classes that have samples come equally often.
DatasetPtr sample_balanced(DatasetPtr source, std::int64_t classes, std::uint64_t seed);

}  // namespace lacuna
