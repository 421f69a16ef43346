// Escaping of text for other programs.
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

/// Escapes `text` for use inside a shell's single quotes.
inline std::string for_single_quotes(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out;
}

}  // namespace lacuna
