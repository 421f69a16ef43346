#include "apps/config/configuration.h"

#include "apps/config/consistency.h"
#include "apps/config/group_rules.h"
#include "apps/config/keys.h"
#include "apps/config/memory_rules.h"
#include "apps/config/model_options.h"
#include "apps/config/yaml.h"
#include "core/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

namespace lacuna::apps {
namespace {

/// Reads values into fields; what does not fit becomes a problem that names the key.
class FieldReader {
 public:
  FieldReader(const Key& key, const YamlNode& node, Problems& problems) : key_(key), node_(node), problems_(problems) {}

  void operator()(std::string* out) const {
    if (node_.kind != YamlNode::Kind::scalar) return expected("text");
    if (key_.choices != nullptr) {
      const std::vector<std::string> choices = key_.choices();
      if (std::ranges::find(choices, node_.text) == choices.end()) return not_a_choice(choices);
    }
    *out = node_.text;
  }

  void operator()(std::int64_t* out) const {
    const std::optional<double> value = number_in(node_);
    constexpr double exactly_counted = 0x1p53;
    if (!value || *value != std::floor(*value) || std::abs(*value) > exactly_counted) return expected("a whole number");
    if (in_range(*value)) *out = static_cast<std::int64_t>(*value);
  }

  void operator()(double* out) const {
    const std::optional<double> value = number_in(node_);
    if (!value) return expected("a number");
    if (in_range(*value)) *out = *value;
  }

  void operator()(std::vector<std::string>* out) const {
    if (node_.kind != YamlNode::Kind::list) return expected("a list of texts");
    out->clear();
    for (const YamlNode& item : node_.items) FieldReader(key_, item, problems_)(&out->emplace_back());
  }

  void operator()(bool* out) const {
    const std::optional<bool> value = flag_in(node_);
    if (!value) return expected("true or false");
    *out = *value;
  }

  void operator()(std::vector<HoldRule>* out) const { *out = read_rules(node_, problems_); }
  void operator()(std::vector<GroupRule>* out) const { *out = read_groups(node_, problems_); }

 private:
  void add(const std::string& message) const {
    if (node_.kind == YamlNode::Kind::invalid) return;
    problems_.add(node_.where, fmt::format("{}.{}: {}", key_.section, key_.name, message));
  }
  void expected(std::string_view what) const { add(fmt::format("expected {}, got {}", what, describe(node_))); }
  void not_a_choice(const std::vector<std::string>& choices) const {
    const std::string near = nearest_name(node_.text, choices);
    add(near.empty()
            ? fmt::format("\"{}\" is none of {}", node_.text, fmt::join(choices, ", "))
            : fmt::format("\"{}\" is none of {}, did you mean \"{}\"?", node_.text, fmt::join(choices, ", "), near));
  }
  bool in_range(double value) const {
    if (value >= key_.low && value <= key_.high) return true;
    add(std::isinf(key_.high) ? fmt::format("expected {} or more, got {}", key_.low, value)
                              : fmt::format("expected {} to {}, got {}", key_.low, key_.high, value));
    return false;
  }

  const Key& key_;
  const YamlNode& node_;
  Problems& problems_;
};

/// Reads a value in the type that a setting's initial value has.
class SettingReader {
 public:
  explicit SettingReader(const YamlNode& node) : node_(node) {}

  std::optional<SettingValue> operator()(bool) const {
    if (const std::optional<bool> value = flag_in(node_)) return *value;
    return {};
  }
  std::optional<SettingValue> operator()(double) const {
    if (const std::optional<double> value = number_in(node_)) return *value;
    return {};
  }
  std::optional<SettingValue> operator()(const std::vector<double>&) const {
    if (node_.kind != YamlNode::Kind::list) return {};
    std::vector<double> values;
    for (const YamlNode& item : node_.items) {
      const std::optional<double> value = number_in(item);
      if (!value) return {};
      values.push_back(*value);
    }
    return values;
  }

 private:
  const YamlNode& node_;
};

std::string_view expected_type(const SettingValue& initial) {
  constexpr std::string_view names[] = {"true or false", "a number", "a list of numbers"};
  return names[initial.index()];
}

const Key* find_key(std::string_view section, std::string_view name) {
  const auto found = std::ranges::find_if(keys(), [&](const Key& k) { return k.section == section && k.name == name; });
  return found == keys().end() ? nullptr : &*found;
}

/// A key that stands in no table of this program, but perhaps in that of the optimizer or schedule `name`.
void read_setting(std::string_view section, std::string_view name, const YamlEntry& entry, SettingValues& options,
                  Problems& problems) {
  const std::vector<Setting> settings = section_settings(section, name);
  const std::string owner = fmt::format("{} {}", section == "memory" ? "memory policy" : section, name);
  const auto setting = std::ranges::find(settings, entry.key, &Setting::name);
  if (setting == settings.end()) {
    if (const std::vector<std::string> owners = owners_of_setting(section, entry.key); !owners.empty()) {
      return problems.add(
          entry.where,
          fmt::format("{0}.{1} is a setting of {2}, and {3} has none of that name; set {0}.{4} to one that has, or, "
                      "where {3} is to take the place of another with all its settings, give the section as one: "
                      "'{0}={{{4}: {3}}}'",
                      section, entry.key, fmt::join(owners, ", "), name, section == "memory" ? "policy" : "name"));
    }
    std::vector<std::string> known;
    for (const Key& key : keys())
      if (key.section == section) known.emplace_back(key.name);
    for (const Setting& one : settings) known.emplace_back(one.name);
    const std::string what =
        name.empty() ? fmt::format("key in section {}:", section) : fmt::format("key of the {}:", owner);
    return problems.add_unknown(entry.where, what, entry.key, known);
  }
  if (entry.value.kind == YamlNode::Kind::invalid) return;
  const std::optional<SettingValue> value = std::visit(SettingReader(entry.value), setting->initial);
  if (!value) {
    return problems.add(entry.value.where, fmt::format("{}.{}: expected {}, got {}", section, entry.key,
                                                       expected_type(setting->initial), describe(entry.value)));
  }
  for (const std::string& problem : setting_problems(owner, settings, {{entry.key, *value}}))
    problems.add(entry.value.where, problem);
  options.insert_or_assign(entry.key, *value);
}

void read_section(std::string_view section, const YamlNode& node, Configuration& configuration, Problems& problems) {
  std::vector<const YamlEntry*> others;
  for (const YamlEntry& entry : node.entries) {
    if (const Key* const key = find_key(section, entry.key)) {
      std::visit(FieldReader(*key, entry.value, problems), key->field(configuration));
    } else {
      others.push_back(&entry);
    }
  }
  if (section == "model") {
    configuration.model.options = read_model_options(others, problems);
    return;
  }
  for (const YamlEntry* const entry : others) {
    if (section == "optimizer") {
      read_setting(section, configuration.optimizer.name, *entry, configuration.optimizer.options, problems);
    } else if (section == "memory") {
      read_setting(section, configuration.memory.policy, *entry, configuration.memory.options, problems);
    } else if (section == "schedule") {
      read_setting(section, configuration.schedule.name, *entry, configuration.schedule.options, problems);
    } else {
      SettingValues none;
      read_setting(section, {}, *entry, none, problems);
    }
  }
}

void refuse_sweep(const YamlNode& root) {
  if (root.find("command") == nullptr) return;
  const YamlEntry* const cases = root.find("cases");
  if (cases != nullptr && !cases->value.items.empty() && cases->value.items.front().find("status") != nullptr)
    reject("{0}: this is what a sweep has written, not a configuration; its page is sweep.html beside it",
           root.where.source);
  reject(
      "{0}: this is a sweep, a command and the cases that it is run on, not a configuration: `lacuna sweep -c {0}` "
      "runs it",
      root.where.source);
}

/// The sections of one file.
YamlNode read_tree(const std::string& text, const std::string& source, Problems& problems) {
  YamlNode root = parse_yaml(text, {source, 1, 1}, problems);
  if (root.kind != YamlNode::Kind::map) {
    problems.add(root.where, fmt::format("expected sections, got {}", describe(root)));
    problems.refuse_if_any();
  }
  refuse_sweep(root);
  return root;
}

/// Puts `entry` in the place of the one with its key, or behind all others.
void put(std::vector<YamlEntry>& entries, YamlEntry entry) {
  const auto found = std::ranges::find(entries, entry.key, &YamlEntry::key);
  if (found == entries.end())
    entries.push_back(std::move(entry));
  else
    *found = std::move(entry);
}

/// Whether a section says what it is about, so that another's keys beside its own would mean nothing, or another thing.
bool names_its_kind(const YamlEntry& section) {
  return section.value.find(section.key == "memory" ? "policy" : "name") != nullptr;
}

/// Lays what a further file says over `root`.
void lay_over(YamlNode& root, YamlNode later) {
  for (YamlEntry& section : later.entries) {
    if (section.value.kind == YamlNode::Kind::null && root.find(section.key) != nullptr) continue;
    const auto before = std::ranges::find(root.entries, section.key, &YamlEntry::key);
    const bool both_have_keys = before != root.entries.end() && before->value.kind == YamlNode::Kind::map &&
                                section.value.kind == YamlNode::Kind::map;
    if (!both_have_keys || names_its_kind(section)) {
      put(root.entries, std::move(section));
    } else {
      for (YamlEntry& entry : section.value.entries) put(before->value.entries, std::move(entry));
    }
  }
}

/// A policy that the command line names by itself begins with its own settings, as one that a later file names does:
/// those of the policy before it would mean something else. What `auto` keeps to and has planned is its own too.
void leave_policy(YamlNode& root, std::span<const std::string> overrides) {
  const auto memory = std::ranges::find(root.entries, "memory", &YamlEntry::key);
  if (memory == root.entries.end() || memory->value.kind != YamlNode::Kind::map) return;
  const YamlEntry* const named = memory->value.find("policy");
  const std::string before = named == nullptr ? Configuration::Memory{}.policy : named->value.text;
  std::string after = before;
  for (const std::string& assignment : overrides) {
    Problems reported_later;
    const std::optional<YamlEntry> given = parse_assignment(assignment, reported_later);
    if (given && given->key == "memory.policy") after = given->value.text;
  }
  if (after == before) return;
  const std::vector<Setting> own = section_settings("memory", before);
  std::erase_if(memory->value.entries, [&](const YamlEntry& entry) {
    constexpr std::string_view of_auto[] = {"budget", "budget_of", "plan", "rules", "recompute"};
    return std::ranges::find(own, entry.key, &Setting::name) != own.end() ||
           (before == "auto" && std::ranges::find(of_auto, entry.key) != std::end(of_auto));
  });
}

void apply_overrides(YamlNode& root, std::span<const std::string> overrides, Problems& problems) {
  leave_policy(root, overrides);
  for (const std::string& assignment : overrides) apply_override(root, assignment, problems);
}

Configuration from_tree(const YamlNode& root, Problems& problems) {
  Configuration configuration;
  for (const YamlEntry& entry : root.entries) {
    if (std::ranges::find(sections(), entry.key) == sections().end()) {
      problems.add_unknown(entry.where, "section", entry.key, {sections().begin(), sections().end()});
    } else if (entry.value.kind == YamlNode::Kind::map) {
      read_section(entry.key, entry.value, configuration, problems);
    } else if (entry.value.kind != YamlNode::Kind::null && entry.value.kind != YamlNode::Kind::invalid) {
      problems.add(entry.value.where,
                   fmt::format("expected keys with values in section {}, got {}", entry.key, describe(entry.value)));
    }
  }
  const YamlEntry* const model = root.find("model");
  if (model == nullptr || model->value.find("name") == nullptr)
    problems.add(model == nullptr ? root.where : model->where, "expected model.name: `lacuna models` lists the names");
  const bool readable = problems.empty();
  check_model(configuration, root, problems);
  if (readable) check_consistency(configuration, root, problems);
  problems.refuse_if_any();
  return configuration;
}

}  // namespace

Configuration parse_configuration(const std::string& text, const std::string& source,
                                  std::span<const std::string> overrides) {
  Problems problems;
  YamlNode root = read_tree(text, source, problems);
  apply_overrides(root, overrides, problems);
  return from_tree(root, problems);
}

Configuration read_configuration(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return parse_configuration(read_text(path), path.string(), overrides);
}

Configuration read_configuration(std::span<const std::string> files, std::span<const std::string> overrides) {
  Problems problems;
  YamlNode root = read_tree(read_text(files.front()), files.front(), problems);
  for (const std::string& file : files.subspan(1)) lay_over(root, read_tree(read_text(file), file, problems));
  apply_overrides(root, overrides, problems);
  return from_tree(root, problems);
}

}  // namespace lacuna::apps
