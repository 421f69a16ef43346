// Files of YAML as configurations use it.
#pragma once

#include "core/yaml.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

using lacuna::parse_yaml;
using lacuna::to_string;
using lacuna::to_yaml;

/// The items of a list with at least one; a node that is none is a problem with the value of `key`.
const std::vector<Tree>& items_of(const Tree& node, std::string_view key, std::string_view wanted, Problems& problems);

/// The place of `section.key` in a configuration; else of its section; else of the configuration.
Location place_of(const Tree& root, std::string_view section, std::string_view key = {});
/// The value of `section.key`; null if there is none.
const Tree* value_of(const Tree& root, std::string_view section, std::string_view key);

/// The text of a file or a pipe, or of standard input (`-`); refuses one that is missing or larger than a configuration
/// can be.
std::string read_text(const std::filesystem::path& path);
/// Reads a file; refuses one with problems.
Tree read_yaml(const std::filesystem::path& path);

}  // namespace lacuna::apps
