// What the values of several keys of a configuration have to do with each other.
#pragma once

#include "apps/config/configuration.h"
#include "apps/config/yaml.h"

namespace lacuna::apps {

/// Adds what does not go together, each at the key to blame; `root` is the tree that the configuration was read from.
/// Reads no data.
void check_consistency(const Configuration& configuration, const YamlNode& root, Problems& problems);

}  // namespace lacuna::apps
