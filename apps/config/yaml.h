// YAML as configurations use it, strictly: every value knows where it stands, a key stands once, nothing is guessed.
#pragma once

#include "core/tree.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

using lacuna::to_string;
using lacuna::to_yaml;

/// The items of a list with at least one; a node that is none is a problem with the value of `key`.
const std::vector<Tree>& items_of(const Tree& node, std::string_view key, std::string_view wanted, Problems& problems);

/// The place of `section.key` in a configuration; else of its section; else of the configuration.
Location place_of(const Tree& root, std::string_view section, std::string_view key = {});
/// The value of `section.key`; null if there is none.
const Tree* value_of(const Tree& root, std::string_view section, std::string_view key);

/// Reads one document. Duplicate keys, aliases, tags and deep nesting are problems; text that is no YAML is refused at
/// once. An empty document is an empty map. Where `start` has no line, it is the location of everything.
Tree parse_yaml(const std::string& text, const Location& start, Problems& problems);
/// The text of a file or a pipe, or of standard input (`-`); refuses one that is missing or larger than a configuration
/// can be.
std::string read_text(const std::filesystem::path& path);
/// Reads a file; refuses one with problems.
Tree read_yaml(const std::filesystem::path& path);

}  // namespace lacuna::apps
