#include "apps/config/memory_rules.h"

#include "core/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace lacuna::apps {
namespace {

const std::vector<std::string> keys{"path", "op", "slot", "user", "hold", "groups", "group_size"};

void read_entry(const YamlEntry& entry, HoldRule& rule, Problems& problems) {
  const auto expected = [&](std::string_view what) {
    problems.add(entry.value.where,
                 fmt::format("memory.rules: {}: expected {}, got {}", entry.key, what, describe(entry.value)));
  };
  const bool is_text = entry.value.kind == YamlNode::Kind::scalar;
  if (entry.key == "group_size") {
    const std::optional<double> size = number_in(entry.value);
    if (!size || *size != std::floor(*size) || *size < 64 || *size > 1024)
      return expected("a whole number from 64 to 1024");
    rule.group_size = static_cast<std::int64_t>(*size);
  } else if (std::ranges::find(keys, entry.key) == keys.end()) {
    problems.add_unknown(entry.where, "key of memory.rules:", entry.key, keys);
  } else if (!is_text) {
    expected("text");
  } else if (entry.key == "hold") {
    const auto hold = parse_hold(entry.value.text);
    if (!hold) return expected("keep, exact, recompute, int1 to int8, or slope2");
    rule.how = hold->first;
    if (hold->first == HoldRule::How::quantize) rule.bits = hold->second;
  } else if (entry.key == "groups") {
    if (entry.value.text != "run" && entry.value.text != "heads" && entry.value.text != "channels")
      return expected("run, heads or channels");
    rule.by_columns = entry.value.text != "run";
  } else {
    (entry.key == "path"   ? rule.path
     : entry.key == "op"   ? rule.op
     : entry.key == "slot" ? rule.slot
                           : rule.user) = entry.value.text;
  }
}

}  // namespace

std::vector<HoldRule> read_rules(const YamlNode& node, Problems& problems) {
  std::vector<HoldRule> rules;
  if (node.kind == YamlNode::Kind::invalid || node.kind == YamlNode::Kind::null) return rules;
  if (node.kind != YamlNode::Kind::list) {
    problems.add(node.where, fmt::format("memory.rules: expected a list of rules, got {}", describe(node)));
    return rules;
  }
  for (const YamlNode& item : node.items) {
    HoldRule& rule = rules.emplace_back();
    const std::size_t others = problems.count();
    if (item.kind != YamlNode::Kind::map) {
      problems.add(item.where, fmt::format("memory.rules: expected keys with values, got {}", describe(item)));
      continue;
    }
    if (item.find("hold") == nullptr)
      problems.add(item.where, "memory.rules: expected `hold`: keep, exact, recompute, int1 to int8, or slope2");
    for (const YamlEntry& entry : item.entries) read_entry(entry, rule, problems);
    if (rule.how == HoldRule::How::recompute && (rule.op != "*" || rule.slot != "*" || rule.user != "*"))
      problems.add(item.where, "memory.rules: `hold: recompute` takes a `path` alone, of a region");
    if (problems.count() == others && rule.how != HoldRule::How::quantize &&
        (rule.by_columns || rule.group_size != HoldRule{}.group_size))
      problems.add(item.where,
                   fmt::format("memory.rules: `groups` and `group_size` are of codes, and `hold: {}` has none",
                               hold_text(rule)));
  }
  return rules;
}

std::string write_rules(const std::vector<HoldRule>& rules) {
  std::vector<std::string> all;
  const auto text = [](std::string_view pattern) { return to_yaml(pattern); };
  for (const HoldRule& rule : rules) {
    const std::string groups =
        rule.how == HoldRule::How::quantize
            ? fmt::format(", groups: {}, group_size: {}", rule.by_columns ? "channels" : "run", rule.group_size)
            : "";
    all.push_back(fmt::format("{{path: {}, op: {}, slot: {}, user: {}, hold: {}{}}}", text(rule.path), text(rule.op),
                              text(rule.slot), text(rule.user), hold_text(rule), groups));
  }
  return fmt::format("[{}]", fmt::join(all, ", "));
}

}  // namespace lacuna::apps
