// Glob patterns for paths.
#pragma once

#include <string_view>

namespace lacuna {

/// Whether all of `text` matches: `*` any characters, `?` one character, `[abc]`, `[0-9]`.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace lacuna
