// Module paths such as `blocks.3.attn`.
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

/// Replaces numbers in a path by wildcards: `blocks.3.attn` becomes `blocks.*.attn`.
std::string with_any_number(std::string_view path);

}  // namespace lacuna
