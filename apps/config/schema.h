// The schema of a configuration: one table, from which reading, writing, validation and help follow.
#pragma once

#include "apps/config/configuration.h"
#include "apps/config/fields.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

/// A section. Where it names an optimizer, a policy or the like, it also has the keys of that one's settings.
struct Section {
  std::string_view name;
  std::string_view choice{};                                      // the key that names it; empty: none
  std::string_view kind{};                                        // noun in messages: `memory policy`
  Names (*names)() = nullptr;                                     // of all that may be named
  const Options* (*settings)(std::string_view choice) = nullptr;  // of the one that is named; null: there is none
  std::function<OptionValues&(Configuration&)> options{};         // values of those settings
};

/// The sections, in their usual order.
std::span<const Section> sections();
Names section_names();
/// Null where there is none.
const Section* find_section(std::string_view name);

/// All keys but the settings and a model's hyper-parameters.
std::span<const Key<Configuration>> keys();
/// `name` is `section.key`; null where there is none.
const Key<Configuration>* find_key(std::string_view name);

/// The value of a section's `choice`.
std::string choice_of(const Section& section, const Configuration& configuration);

/// The keys that a section can have under any choice, without the section's name and a model's hyper-parameters.
Names known_keys(std::string_view section);

/// A row of the documentation.
struct KeyHelp {
  std::string name, type, initial, help;
  bool operator==(const KeyHelp&) const = default;
};
/// Every key. Settings that several optimizers, say, have alike share a row.
std::vector<KeyHelp> key_help();
/// The same as a table in Markdown: the reference part of docs/configuration.md.
std::string keys_as_markdown();

}  // namespace lacuna::apps
