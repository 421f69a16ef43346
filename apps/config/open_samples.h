// The data set of a configuration, ready to be read.
#pragma once

#include "apps/config/configuration.h"
#include "data/pipeline.h"

namespace lacuna::apps {

/// Opens the split. With `data.broken: skip` files that are damaged are left out, counted and listed on standard error.
DatasetPtr open_samples(const Configuration& resolved, Split split);

}  // namespace lacuna::apps
