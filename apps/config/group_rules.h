// The list `optimizer.groups` of a configuration.
#pragma once

#include "apps/config/yaml.h"
#include "optim/optimizer.h"

#include <string>
#include <vector>

namespace lacuna::apps {

/// Reads a list of rules; what is wrong becomes a problem with its place.
std::vector<GroupRule> read_groups(const YamlNode& node, Problems& problems);
/// As YAML in one line.
std::string write_groups(const std::vector<GroupRule>& groups);

}  // namespace lacuna::apps
