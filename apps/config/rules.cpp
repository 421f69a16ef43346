#include "apps/config/rules.h"

#include "apps/config/fields.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

/// A HoldRule as a configuration writes it.
struct HoldText {
  std::string path = "*", op = "*", slot = "*", user = "*", hold, groups = "run";
  std::int64_t group_size = HoldRule{}.group_size;
};

Names hold_names() {
  return {"keep", "exact", "recompute", "int1", "int2", "int3", "int4", "int5", "int6", "int7", "int8", "slope2"};
}
Names group_names() { return {"run", "heads", "channels"}; }

constexpr NumberRange group_sizes = between(64, 1024);

const std::vector<Key<HoldText>> hold_keys{
    {"path", &HoldText::path, {}, "pattern on the path of the module whose op made the tensor"},
    {"op", &HoldText::op, {}, "pattern on the op that made it"},
    {"slot", &HoldText::slot, {}, "pattern on which of the module's tensors it is"},
    {"user", &HoldText::user, {}, "pattern on the ops that read it"},
    {"hold", &HoldText::hold, {.names = hold_names}, "how it is held"},
    {"groups", &HoldText::groups, {.names = group_names}, "which elements share a range"},
    {"group_size", &HoldText::group_size, {group_sizes}, "how many share one"},
};

const std::vector<Key<GroupRule>> group_keys{
    {"match", &GroupRule::pattern, {}, "pattern on parameter names"},
    {"lr_scale", &GroupRule::lr_scale, {}, "factor of the learning rate"},
    {"weight_decay", &GroupRule::weight_decay, {}, "in place of the optimizer's"},
};

/// Reads each rule by the table of its keys. `check` returns the fault of a rule; an empty text: it has none.
template <class Rule>
std::vector<Rule> read_rules(std::string_view list, const std::vector<Key<Rule>>& keys, const Tree& node,
                             Problems& problems, std::string (*check)(const Rule&)) {
  std::vector<Rule> rules;
  if (node.kind == Tree::Kind::null) return rules;
  if (node.kind != Tree::Kind::list)
    problems.add(node.where, fmt::format("{}: expected a list of rules, got {}", list, describe(node)));
  Names names;
  for (const Key<Rule>& key : keys) names.emplace_back(key.name);
  for (const Tree& item : node.items) {
    if (item.kind != Tree::Kind::map) {
      problems.add(item.where, fmt::format("{}: expected keys with values, got {}", list, describe(item)));
      continue;
    }
    const std::size_t others = problems.count();
    Rule& rule = rules.emplace_back();
    for (const TreeEntry& entry : item.entries) {
      const auto key = std::ranges::find(keys, entry.key, &Key<Rule>::name);
      if (key == keys.end())
        problems.add_unknown(entry.where, fmt::format("key of {}:", list), entry.key, names);
      else
        read_field(fmt::format("{}: {}", list, entry.key), entry.value, key->field(rule), key->values, problems);
    }
    if (problems.count() > others) continue;
    if (const std::string problem = check(rule); !problem.empty())
      problems.add(item.where, fmt::format("{}: {}", list, problem));
  }
  return rules;
}

/// All keys but those without a value.
template <class Rule>
std::string write_rule(Rule rule, const std::vector<Key<Rule>>& keys) {
  Names parts;
  for (const Key<Rule>& key : keys)
    if (const std::string value = write_field(key.field(rule)); !value.empty())
      parts.push_back(fmt::format("{}: {}", key.name, value));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string problem_of(const HoldText& rule) {
  if (rule.hold.empty()) return fmt::format("expected `hold`, one of {}", fmt::join(hold_names(), ", "));
  if (rule.hold == "recompute" && (rule.op != "*" || rule.slot != "*" || rule.user != "*"))
    return "`hold: recompute` takes a `path` alone, of a region";
  const bool quantizes = rule.hold.starts_with("int");
  if (!quantizes && (rule.groups != "run" || rule.group_size != HoldRule{}.group_size))
    return fmt::format("`groups` and `group_size` belong to int1 to int8, got `hold: {}`", rule.hold);
  return {};
}

std::string problem_of(const GroupRule& rule) {
  if (rule.pattern.empty()) return "expected `match`, a pattern on parameter names";
  if (!rule.lr_scale && !rule.weight_decay) return "expected `lr_scale`, `weight_decay` or both";
  return {};
}

}  // namespace

std::vector<HoldRule> read_hold_rules(std::string_view key, const Tree& node, Problems& problems) {
  std::vector<HoldRule> rules;
  for (const HoldText& text : read_rules<HoldText>(key, hold_keys, node, problems, problem_of)) {
    HoldRule& rule =
        rules.emplace_back(HoldRule{.path = text.path, .op = text.op, .slot = text.slot, .user = text.user});
    if (const auto hold = parse_hold(text.hold)) {
      rule.how = hold->first;
      if (rule.how == HoldRule::How::quantize) rule.bits = hold->second;
    }
    rule.by_columns = text.groups != "run";
    rule.group_size = text.group_size;
  }
  return rules;
}

std::vector<GroupRule> read_group_rules(std::string_view key, const Tree& node, Problems& problems) {
  return read_rules<GroupRule>(key, group_keys, node, problems, problem_of);
}

std::string write_hold_rules(const std::vector<HoldRule>& rules) {
  Names all;
  for (const HoldRule& rule : rules)
    all.push_back(write_rule(HoldText{.path = rule.path,
                                      .op = rule.op,
                                      .slot = rule.slot,
                                      .user = rule.user,
                                      .hold = hold_text(rule),
                                      .groups = rule.by_columns ? "channels" : "run",
                                      .group_size = rule.group_size},
                             hold_keys));
  return fmt::format("[{}]", fmt::join(all, ", "));
}

std::string write_group_rules(const std::vector<GroupRule>& rules) {
  Names all;
  for (const GroupRule& rule : rules) all.push_back(write_rule(rule, group_keys));
  return fmt::format("[{}]", fmt::join(all, ", "));
}

}  // namespace lacuna::apps
