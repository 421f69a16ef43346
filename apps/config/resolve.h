// What a configuration leaves open, settled for this machine and data set.
#pragma once

#include "apps/config/configuration.h"
#include "data/dataset.h"
#include "data/pipeline.h"

namespace lacuna::apps {

/// The configuration with device, classes, image size and threads decided. A memory budget stays as it is given:
/// `plan_memory` makes its plan.
Configuration resolve(const Configuration& configuration);

/// With model.num_classes: the data set's classes, or the numbers in a label where it has no classes.
Configuration with_outputs(Configuration configuration);

Device device_of(const Configuration& resolved);
DatasetOptions dataset_options(const Configuration& configuration, Split split);
/// The batches of an opened data set. For training: augmented, in random order, of `train.batch_size` samples, all of
/// them full. For validation: of as many samples as a training step has at once.
Batches batches_of(const Configuration& resolved, DatasetPtr dataset, Split split);

}  // namespace lacuna::apps
