// Paths of modules, as `blocks.3.attn`.
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

/// `blocks.3.attn` as `blocks.*.attn`.
std::string with_any_number(std::string_view path);

}  // namespace lacuna
