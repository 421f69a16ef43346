// The list `memory.rules` of a configuration.
#pragma once

#include "apps/config/yaml.h"
#include "autograd/policies/rules.h"

#include <string>
#include <vector>

namespace lacuna::apps {

/// Reads a list of rules; what is wrong becomes a problem with its place.
std::vector<HoldRule> read_rules(const YamlNode& node, Problems& problems);
/// As YAML in one line.
std::string write_rules(const std::vector<HoldRule>& rules);

}  // namespace lacuna::apps
