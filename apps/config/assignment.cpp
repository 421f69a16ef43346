#include "apps/config/assignment.h"

#include "apps/config/paths.h"
#include "apps/config/schema.h"
#include "apps/config/yaml.h"
#include "core/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace lacuna::apps {
namespace {

/// The entry of `key`, which is added to the map if it is new.
TreeEntry& entry_at(Tree& map, std::string_view key, const Location& where) {
  const auto found = std::ranges::find(map.entries, key, &TreeEntry::key);
  if (found != map.entries.end()) return *found;
  map.entries.push_back({std::string(key), where, {}});
  map.entries.back().value.where = where;
  return map.entries.back();
}

/// The key that `section=value` sets: the path of the section where `value` is one, else its choice.
std::string key_of_section(const Section& section, const TreeEntry& given, Problems& problems) {
  const auto path = std::ranges::find(section.fields, PathKind::path, &Field::path);
  const bool has_path = path != section.fields.end();
  if (section.choice.empty()) return has_path ? fmt::format("{}.{}", section.name, path->name) : given.key;
  const std::string choice = fmt::format("{}.{}", section.name, section.choice);
  std::error_code ignored;
  if (!has_path) return choice;
  const Names names = section.names == nullptr ? Names() : section.names();
  const std::string as_path = fmt::format("{}.{}", section.name, path->name);
  const bool is_name = std::ranges::find(names, given.value.text) != names.end();
  if (!std::filesystem::exists(expand_home(given.value.text), ignored)) {
    const bool may_be_path = section.name == "data" || given.value.text.find('/') != std::string::npos;
    return may_be_path && !is_name ? as_path : choice;
  }
  if (is_name)
    problems.add(given.where, fmt::format("{0}={1}: {1} is a name and a path: expected {2}={1} or {3}={1}", given.key,
                                          given.value.text, choice, as_path));
  return as_path;
}

/// The full key of a short form; other keys as they are. Empty: several sections have it, which is a problem.
std::string full_key(const TreeEntry& given, Problems& problems) {
  if (given.key.find('.') != std::string::npos) return given.key;
  if (const Section* const section = find_section(given.key))
    return given.value.kind == Tree::Kind::scalar ? key_of_section(*section, given, problems) : given.key;
  Names owners;
  for (const Section& section : sections())
    if (section.find(given.key) != nullptr) owners.push_back(fmt::format("{}.{}", section.name, given.key));
  if (owners.empty())  // an option of what a section chooses
    for (const Section& section : sections())
      if (const Names known = section.known_keys(); std::ranges::find(known, given.key) != known.end())
        owners.push_back(fmt::format("{}.{}", section.name, given.key));
  if (owners.size() == 1) return owners.front();
  if (owners.empty()) {
    Names known = section_names();
    for (const Section& section : sections()) {
      const Names keys = section.known_keys();
      known.insert(known.end(), keys.begin(), keys.end());
    }
    const std::string near = nearest_name(given.key, known);
    if (near.empty()) return given.key;
    problems.add(given.where, fmt::format("unknown key {}, did you mean {}?", given.key, near));
    return {};
  }
  problems.add(given.where, fmt::format("{}: expected one of {}", given.key, fmt::join(owners, ", ")));
  return {};
}

}  // namespace

std::optional<TreeEntry> parse_assignment(std::string_view assignment, Problems& problems) {
  const Location here{"command line", 0, 0};
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    problems.add(here, fmt::format("expected key=value, got `{}`", assignment));
    return {};
  }
  const std::string text(assignment.substr(equals + 1));
  const std::string key(assignment.substr(0, equals));
  TreeEntry entry{key, here, {}};
  try {
    const bool is_block_sign = text == "|" || text == ">";  // of no block: data.separator=|
    entry.value = parse_yaml(is_block_sign ? "'" + text + "'" : text, here, problems);
  } catch (const Error& error) {
    reject(
        "{} (`{}`): the shell needs quotes around an argument with spaces, YAML around a text with `*`, `@`, `|` "
        "or `>` in front",
        error.what(), assignment);
  }
  if (text.empty()) entry.value.kind = Tree::Kind::null;
  entry.key = full_key(entry, problems);
  if (entry.key.empty()) return {};
  return entry;
}

bool sets(std::string_view assignment, std::string_view section, std::string_view key) {
  Problems reported_later;
  const std::optional<TreeEntry> given = parse_assignment(assignment, reported_later);
  return given && (given->key == fmt::format("{}.{}", section, key) ||
                   (given->key == section && given->value.find(key) != nullptr));
}

bool names_path_of(const Section& section, std::string_view assignment) {
  if (section.choice.empty() || assignment.substr(0, assignment.find('=')) != section.name) return false;
  Problems reported_later;
  const std::optional<TreeEntry> given = parse_assignment(assignment, reported_later);
  return given && given->key != section.name && given->key != fmt::format("{}.{}", section.name, section.choice);
}

void apply_override(Tree& root, std::string_view assignment, Problems& problems) {
  std::optional<TreeEntry> given = parse_assignment(assignment, problems);
  if (!given) return;
  const Location& here = given->where;
  if (given->value.kind == Tree::Kind::null) {
    problems.add(here, fmt::format("{}: expected a value behind `=`", assignment));
    return;
  }
  for (const Section& section : sections())
    if (const auto found = std::ranges::find(root.entries, section.name, &TreeEntry::key);
        found != root.entries.end() && names_path_of(section, assignment))
      std::erase_if(found->value.entries, [&](const TreeEntry& entry) {
        return entry.key == section.choice && entry.where.source != here.source;
      });
  std::string_view path = given->key;
  Tree* parent = &root;
  for (std::size_t dot; (dot = path.find('.')) != std::string_view::npos; path.remove_prefix(dot + 1)) {
    parent = &entry_at(*parent, path.substr(0, dot), here).value;
    if (parent->kind == Tree::Kind::null) parent->kind = Tree::Kind::map;
    if (parent->kind != Tree::Kind::map) {
      problems.add(
          here, fmt::format("\"{}\" cannot be set: \"{}\" is {}", given->key, path.substr(0, dot), describe(*parent)));
      return;
    }
  }
  TreeEntry& entry = entry_at(*parent, path, here);
  entry.where = here;
  entry.value = std::move(given->value);
}

}  // namespace lacuna::apps
