// The exception type. A message states the expected and the actual value, and a remedy.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace lacuna {

/// Cause of an error, which decides the exit code of the command: 2 for input, 1 for run.
enum class Fault : unsigned char { input, run };

class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

/// Throws an error of the run: wrong shapes, a stale tensor, a loss that is not finite.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Fault::run, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws an error of the input, which the user can correct: a configuration, a file, a batch that does not fit, a full
/// disk.
template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Fault::input, fmt::format(format, std::forward<Args>(args)...));
}

/// The first lines of a list in a message, and the number of those left out. Each line starts with a line break.
std::string first_lines(const std::string& list);

template <class... Args>
void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) fail(format, std::forward<Args>(args)...);
}

}  // namespace lacuna
