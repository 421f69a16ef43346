// The sections of a configuration, with all keys that they can have. Reading, writing, help and what an evaluation may
// change follow from them.
#pragma once

#include "apps/config/configuration.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

/// A section. If it chooses an optimizer, a policy or the like, it also has the keys of that one's options.
struct Section {
  std::string_view name;
  Fields fields;              // members of a Configuration
  Use use = Use::any;         // `training_only`: evaluations read none of its keys
  std::string_view choice{};  // the key that chooses; empty: none
  std::string_view kind{};    // noun in messages: `memory policy`
  Names (*names)() = nullptr;
  const Options* (*options_of)(std::string_view choice) = nullptr;  // null: there is no such choice
  std::function<OptionValues&(Configuration&)> given{};             // their values; a model's are Model::options

  const Field* find(std::string_view key) const { return find_field(fields, key); }
  std::string chosen(const Configuration& configuration) const;
  /// Whether a field has an effect (OnlyIf).
  bool has_effect(const Field& field, const Configuration& configuration) const;
  /// The options of a choice with their defaults; none for an unknown one, or if there is nothing to choose.
  const Options& options(std::string_view choice) const;
  /// The keys under any choice, without the section's name.
  Names known_keys() const;
};

/// The sections, in their usual order.
std::span<const Section> sections();
Names section_names();
/// Null if there is none.
const Section* find_section(std::string_view name);

/// Whether evaluations read `section.key`.
Use use_of(std::string_view section, std::string_view key);

/// A row of the documentation.
struct KeyHelp {
  std::string name, type, initial, help;
  bool operator==(const KeyHelp&) const = default;
};
/// Every key. Options that several optimizers, say, have alike share a row.
std::vector<KeyHelp> key_help();
/// The same in Markdown: docs/configuration.md.
std::string keys_as_markdown();

}  // namespace lacuna::apps
