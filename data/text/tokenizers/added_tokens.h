// Tokens that are found in a text before it is cut into words.
#pragma once

#include "data/text/trie.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lacuna {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool normalized = false;                         // matched against the normalized text
  bool single_word = false;                        // matched only between characters that are not of words
  bool strips_left = false, strips_right = false;  // takes the white space at that side
  bool special = false;                            // a special token, not part of a text
};

/// Finds the longest token at the leftmost place.
class AddedTokens {
 public:
  /// Takes the tokens that are `normalized` or those that are not; their texts are passed through `normalize`.
  AddedTokens(const std::vector<AddedToken>& all, bool normalized,
              const std::function<std::string(const std::string&)>& normalize);
  bool empty() const { return tokens_.empty(); }

  /// Calls `f(begin, end, id)` for the parts of a text in order; id -1: a part without a token.
  template <class F>
  void cut(std::string_view text, F&& f) const {
    std::size_t done = 0;
    if (!tokens_.empty())
      for (std::size_t at = 0; at < text.size();) {
        if (!starts_[static_cast<unsigned char>(text[at])]) {
          ++at;
          continue;
        }
        const auto [number, length] = trie_.longest(text.substr(at));
        if (length == 0) {
          ++at;
          continue;
        }
        const AddedToken& token = tokens_[static_cast<std::size_t>(number)];
        std::size_t begin = at, end = at + length;
        at = end;
        if (!extend(token, text, done, begin, end)) continue;
        if (done < begin) f(done, begin, std::int32_t{-1});
        f(begin, end, token.id);
        done = end;
      }
    if (done < text.size()) f(done, text.size(), std::int32_t{-1});
  }

 private:
  /// Whether the match holds; white space that belongs to the token is added to it.
  static bool extend(const AddedToken& token, std::string_view text, std::size_t done, std::size_t& begin,
                     std::size_t& end);

  std::vector<AddedToken> tokens_;
  Trie trie_;                     // of places in tokens_
  std::array<bool, 256> starts_;  // first bytes of tokens
};

}  // namespace lacuna
