// The keys of a configuration as a table: reading, writing and the documentation follow from it.
#pragma once

#include "apps/config/configuration.h"

#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lacuna::apps {

/// Where a key's value lives; says its type.
using Field = std::variant<std::string*, std::int64_t*, double*, bool*, std::vector<std::string>*,
                           std::vector<HoldRule>*, std::vector<GroupRule>*>;

struct Key {
  std::string_view section;
  std::string_view name;
  Field (*field)(Configuration&);
  std::string_view meaning;
  /// Numbers lie between these.
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  /// The names to choose from; null: any text.
  std::vector<std::string> (*choices)() = nullptr;
};

/// All keys but those that a model family, an optimizer or a schedule adds to its section.
std::span<const Key> keys();
/// The sections, in their usual order.
std::span<const std::string_view> sections();

/// What an optimizer or a schedule can be told beside its name; empty where the section or the name is another.
std::vector<Setting> section_settings(std::string_view section, std::string_view name);
/// The optimizers, schedules or policies that have a setting `name`.
std::vector<std::string> owners_of_setting(std::string_view section, std::string_view name);

/// The names of all keys of a section, with those of any optimizer or schedule; but not those of a model's family.
std::vector<std::string> known_keys(std::string_view section);

/// Key, type, default and meaning of everything as a table in Markdown: the reference part of docs/configuration.md.
std::string keys_as_markdown();

}  // namespace lacuna::apps
