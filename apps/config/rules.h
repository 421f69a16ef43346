// The lists `memory.rules` and `optimizer.groups` of a configuration.
#pragma once

#include "apps/config/yaml.h"
#include "autograd/policies/rules.h"
#include "optim/optimizer.h"

#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

/// Read a list of rules; `key` names it in problems.
std::vector<HoldRule> read_hold_rules(std::string_view key, const Tree& node, Problems& problems);
std::vector<GroupRule> read_group_rules(std::string_view key, const Tree& node, Problems& problems);
/// As YAML on one line.
std::string write_hold_rules(const std::vector<HoldRule>& rules);
std::string write_group_rules(const std::vector<GroupRule>& rules);

}  // namespace lacuna::apps
