// Output of a command: text for people, or JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace CLI {
class App;
}

namespace lacuna::apps {

/// Writes to standard output. False: nobody reads it any more, as behind `head`.
bool print_output(const std::string& text);

/// Writes to standard error, which may be gone: a terminal that was closed, a full disk under a log.
void print_error(const std::string& text);
/// A word of a command line to paste: in quotes where the shell needs them.
std::string shell_word(const std::string& word);
/// From now on print_error does nothing: another process says the same.
void silence_warnings();

/// The option `--json FILE`. With `-` the JSON goes to standard output and nothing else does.
class Report {
 public:
  void declare(CLI::App& app);
  /// Prints `text` unless standard output is for the JSON, and writes the JSON where it is asked for. A host gets both.
  void write(const std::string& text, const nlohmann::ordered_json& json) const;
  /// Whether people read standard output.
  bool for_people() const;

 private:
  std::string file_;
};

}  // namespace lacuna::apps
