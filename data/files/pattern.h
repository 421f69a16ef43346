// Path patterns for shards: `train-{000000..000146}.tar`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Expands a pattern to paths, in order: `{000..012}` is a range, `{a,b}` a list, and `*`, `?` and `[abc]` in the last
/// path component match existing files. A path without any of these expands to itself. Rejects a pattern that matches
/// nothing.
std::vector<std::filesystem::path> expand_pattern(const std::string& pattern);
/// Whether a path contains any of `{*?[`.
bool is_pattern(std::string_view path);

}  // namespace lacuna
