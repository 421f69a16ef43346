// Refusals of input: which places they name, and which keys.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>

namespace lacuna::test {

/// Whether a line of `message` begins with `place`, as `a.yaml:2:17`, and contains all of `words`.
inline bool names(const std::string& message, const std::string& place, std::initializer_list<std::string_view> words) {
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(place + ": ") &&
        std::ranges::all_of(words, [&](std::string_view word) { return line.find(word) != std::string::npos; }))
      return true;
  return false;
}

inline std::ptrdiff_t lines_of(const std::string& message) {
  return message.empty() ? 0 : 1 + std::ranges::count(message, '\n');
}

}  // namespace lacuna::test
