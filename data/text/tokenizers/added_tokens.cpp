#include "data/text/tokenizers/added_tokens.h"

#include "data/text/utf8.h"

namespace lacuna {
namespace {

Character last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) >> 6U) == 2) --at;
  return first_character(text.substr(at));
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& all, bool normalized,
                         const std::function<std::string(const std::string&)>& normalize)
    : starts_{} {
  // If several tokens have the same text, the first counts, special ones before others.
  for (const bool special : {true, false})
    for (const AddedToken& token : all) {
      if (token.normalized != normalized || token.special != special) continue;
      const std::string content = normalize(token.content);
      if (content.empty() || trie_.longest(content).second == content.size()) continue;
      trie_.insert(content, static_cast<std::int32_t>(tokens_.size()));
      starts_[static_cast<unsigned char>(content.front())] = true;
      tokens_.push_back(token);
    }
}

bool AddedTokens::extend(const AddedToken& token, std::string_view text, std::size_t done, std::size_t& begin,
                         std::size_t& end) {
  if (token.single_word && ((begin > 0 && is_word_character(last_character(text.substr(0, begin)).code)) ||
                            (end < text.size() && is_word_character(first_character(text.substr(end)).code))))
    return false;
  while (token.strips_left && begin > done) {
    const Character character = last_character(text.substr(0, begin));
    if (!is_whitespace(character.code)) break;
    begin -= character.bytes;
  }
  begin = std::max(begin, done);
  while (token.strips_right && end < text.size()) {
    const Character character = first_character(text.substr(end));
    if (!is_whitespace(character.code)) break;
    end += character.bytes;
  }
  return true;
}

}  // namespace lacuna
