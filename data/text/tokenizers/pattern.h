// Patterns of tokenizer.json: a text, or a regular expression.
#pragma once

#include "data/text/tokenizers/regex.h"

#include <optional>
#include <string>

namespace lacuna {

class JsonReader;

class Pattern {
 public:
  /// Reads the member `pattern`: {"String": …} or {"Regex": …}.
  explicit Pattern(const JsonReader& object);
  void find_all(std::string_view text, Matches& matches) const;

 private:
  std::string text_;
  std::optional<Regex> regex_;
};

}  // namespace lacuna
