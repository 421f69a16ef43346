// Checks across the keys of a configuration.
#pragma once

#include "apps/config/experiment.h"
#include "apps/config/yaml.h"

namespace lacuna::apps {

/// Adds values that contradict each other, each at the key to blame; `root` is the tree that the configuration was read
/// from. Reads no data.
void validate(const Experiment& experiment, const Tree& root, Problems& problems);

}  // namespace lacuna::apps
