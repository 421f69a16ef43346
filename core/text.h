// Text for other programs.
#pragma once

#include <string>
#include <string_view>

namespace lacuna {

/// `text` for the inside of a shell's single quotes.
inline std::string for_single_quotes(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out;
}

}  // namespace lacuna
