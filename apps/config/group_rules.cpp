#include "apps/config/group_rules.h"

#include <fmt/ranges.h>

namespace lacuna::apps {
namespace {

const std::vector<std::string> keys{"match", "lr_scale", "weight_decay"};

void read_entry(const YamlEntry& entry, GroupRule& rule, Problems& problems) {
  const auto expected = [&](std::string_view what) {
    problems.add(entry.value.where,
                 fmt::format("optimizer.groups: {}: expected {}, got {}", entry.key, what, describe(entry.value)));
  };
  if (entry.key == "match") {
    if (entry.value.kind != YamlNode::Kind::scalar) return expected("a pattern on parameter names");
    rule.pattern = entry.value.text;
  } else if (entry.key == "lr_scale" || entry.key == "weight_decay") {
    const std::optional<double> value = number_in(entry.value);
    if (!value || *value < 0) return expected("a number, 0 or more");
    (entry.key == "lr_scale" ? rule.lr_scale : rule.weight_decay) = *value;
  } else {
    problems.add_unknown(entry.where, "key of optimizer.groups:", entry.key, keys);
  }
}

}  // namespace

std::vector<GroupRule> read_groups(const YamlNode& node, Problems& problems) {
  std::vector<GroupRule> groups;
  if (node.kind == YamlNode::Kind::invalid || node.kind == YamlNode::Kind::null) return groups;
  if (node.kind != YamlNode::Kind::list) {
    problems.add(node.where, fmt::format("optimizer.groups: expected a list of rules, got {}", describe(node)));
    return groups;
  }
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlNode::Kind::map) {
      problems.add(item.where, fmt::format("optimizer.groups: expected keys with values, got {}", describe(item)));
      continue;
    }
    if (item.find("match") == nullptr)
      problems.add(item.where, "optimizer.groups: expected `match`, a pattern on parameter names");
    if (item.find("lr_scale") == nullptr && item.find("weight_decay") == nullptr)
      problems.add(item.where, "optimizer.groups: expected `lr_scale`, `weight_decay` or both");
    GroupRule& rule = groups.emplace_back();
    for (const YamlEntry& entry : item.entries) read_entry(entry, rule, problems);
  }
  return groups;
}

std::string write_groups(const std::vector<GroupRule>& groups) {
  std::vector<std::string> all;
  for (const GroupRule& rule : groups) {
    std::string text = "{match: " + to_yaml(std::string_view(rule.pattern));
    if (rule.lr_scale) text += fmt::format(", lr_scale: {}", *rule.lr_scale);
    if (rule.weight_decay) text += fmt::format(", weight_decay: {}", *rule.weight_decay);
    all.push_back(text + "}");
  }
  return fmt::format("[{}]", fmt::join(all, ", "));
}

}  // namespace lacuna::apps
