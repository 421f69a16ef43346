// The one exception type. A message says what was expected, what was got, and what to do.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace lacuna {

/// Whose mistake it is: decides the exit code of the command (2 or 1).
enum class Fault : unsigned char { input, run };

class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

/// Ends a run that cannot go on: wrong shapes, a stale tensor, a loss that is not finite.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Fault::run, fmt::format(format, std::forward<Args>(args)...));
}

/// Refuses what came from outside and what the user can put right: a configuration, a file, a batch that does not fit,
/// a full disk.
template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Fault::input, fmt::format(format, std::forward<Args>(args)...));
}

/// Of a list in a message the first lines, and how many more there are; a line break begins each.
std::string first_lines(const std::string& list);

template <class... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) fail(format, std::forward<Args>(args)...);
}

}  // namespace lacuna
