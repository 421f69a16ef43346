// Patterns on paths, as shards are named by: `train-{000000..000146}.tar`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The paths that a pattern stands for, in order: `{000..012}` counts, `{a,b}` lists, and `*`, `?` and `[abc]` in the
/// last part match files. A path without any of these stands for itself. Rejects a pattern that matches nothing.
std::vector<std::filesystem::path> expand_pattern(const std::string& pattern);
/// Whether a path has any of `{*?[`.
bool is_pattern(std::string_view path);

}  // namespace lacuna
