// What a configuration leaves open, settled for this machine and data set.
#pragma once

#include "apps/config/configuration.h"
#include "data/dataset.h"
#include "data/transforms.h"

namespace lacuna::apps {

/// The configuration with everything decided: device, classes, image size and threads, which are set, and the plan of
/// a budget, for which model.from and the rates of this machine are read.
Configuration resolve(const Configuration& configuration);

/// The same but for the plan: a budget stays as it is given.
Configuration resolve_without_budget(const Configuration& configuration);

Device device_of(const Configuration& resolved);
DatasetOptions dataset_options(const Configuration& configuration, Split split);
/// Augmentation is for training only.
TransformOptions transform_options(const Configuration& resolved, Split split);

}  // namespace lacuna::apps
