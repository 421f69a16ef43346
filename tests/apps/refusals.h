// Tables of refusals: a wrong change to a configuration, and what the message names.
#pragma once

#include "apps/config/resolve.h"
#include "tests/apps/commands/command_run.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::test {

struct Refusal {
  std::string change;   // lines, each as `key=value` or as YAML
  std::string key;      // that the message names, or its place, as `a.yaml:2:17`
  std::string words{};  // on the same line, separated by `|`
};

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/// Whether a line of `message` has the whole key, and all the words.
inline bool names(const std::string& message, const Refusal& row) {
  const std::vector<std::string> words = split(row.words, '|');
  return std::ranges::any_of(split(message, '\n'), [&](const std::string& line) {
    const std::size_t at = line.find(row.key), end = at + row.key.size();
    return at != std::string::npos &&
           (end == line.size() || std::isdigit(static_cast<unsigned char>(line[end])) == 0) &&
           std::ranges::all_of(words, [&](const std::string& word) { return line.find(word) != std::string::npos; });
  });
}

inline void check_names(const std::string& message, const Refusal& row) {
  INFO(row.change);
  INFO(message);
  CHECK_MESSAGE(names(message, row), row.key);
}

/// Checks that `base` is refused with each change: overrides, or lines after its own. Its name is a.yaml.
inline void check_refusals(const std::string& base, const std::vector<Refusal>& rows) {
  for (const Refusal& row : rows) {
    std::string text = base;
    std::vector<std::string> overrides;
    for (const std::string& line : split(row.change, '\n')) {
      const std::size_t sign = line.find_first_of("=:");
      if (sign != std::string::npos && line[sign] == '=')
        overrides.push_back(line);
      else
        text += line + "\n";
    }
    check_names(refusal_of([&] { apps::resolve(apps::parse_configuration(text, "a.yaml", overrides)); }), row);
  }
}

/// Checks that a command, run in this process with the lines of each change as further words, ends with 2 and prints
/// nothing but the message, and that it trains nothing.
inline void check_refusals(const TemporaryFolder& folder, const std::vector<std::string>& command,
                           const std::vector<Refusal>& rows) {
  for (const Refusal& row : rows) {
    std::vector<std::string> words = command;
    std::ranges::copy(split(row.change, '\n'), std::back_inserter(words));
    const CommandResult result = run_here(folder, std::move(words));
    check_names(result.error, row);
    CHECK_MESSAGE(result.code == 2, row.change);
    CHECK_MESSAGE(result.out.empty(), row.change);
    CHECK_FALSE(std::filesystem::exists(folder / "runs"));
  }
}

}  // namespace lacuna::test
