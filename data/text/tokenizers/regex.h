// Regular expressions as Oniguruma reads them, which the tokenizers library uses. PCRE2 matches them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// A part of a text: what a pattern matches, or what lies between.
struct Match {
  std::size_t begin, end;
  bool is_match;
};
using Matches = std::vector<Match>;

class Regex {
 public:
  /// Rejects a pattern that is not supported; `place` names it in the message.
  Regex(std::string_view pattern, const std::string& place);
  /// Appends the parts of `text`, which is valid UTF-8, in order; together they cover it. Thread-safe.
  void find_all(std::string_view text, Matches& matches) const;

 private:
  std::shared_ptr<const void> code_;  // pcre2_code
};

/// The same pattern in PCRE2's syntax: white space and word characters as Oniguruma has them, classes in classes made
/// one, `(?m)` (dot matches line breaks) as `(?s)`.
std::string pcre2_pattern(std::string_view pattern, const std::string& place);

}  // namespace lacuna
