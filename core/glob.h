// Patterns on paths.
#pragma once

#include <string_view>

namespace lacuna {

/// Whether the whole of `text` matches: `*` any run of characters, `?` one character, `[abc]`, `[0-9]`.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace lacuna
