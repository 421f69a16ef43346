#include "data/text/tokenizers/pattern.h"

#include "data/text/tokenizers/json_reader.h"

namespace lacuna {

Pattern::Pattern(const JsonReader& object) {
  const JsonReader pattern = object.inner("pattern");
  if (pattern.find("Regex") != nullptr) {
    regex_.emplace(pattern.text("Regex"), pattern.place());
    return;
  }
  text_ = pattern.text("String");
  if (text_.empty()) reject("{}: expected a text that is not empty", pattern.place());
}

void Pattern::find_all(std::string_view text, Matches& matches) const {
  if (regex_) return regex_->find_all(text, matches);
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = text.find(text_, begin)) != std::string_view::npos; begin = at + text_.size()) {
    if (begin < at) matches.push_back({begin, at, false});
    matches.push_back({at, at + text_.size(), true});
  }
  if (begin < text.size()) matches.push_back({begin, text.size(), false});
}

}  // namespace lacuna
