// Small transformations of ASCII text.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace lacuna {

/// ASCII letters in lower case.
inline std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// Escapes `text` for use inside a shell's single quotes.
inline std::string for_single_quotes(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out;
}

}  // namespace lacuna
