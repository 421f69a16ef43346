// The tokens of words that a thread has seen.
#pragma once

#include "data/text/tokenizers/token_model.h"

#include <memory>
#include <span>

namespace lacuna {

/// A table of a fixed size: a word takes the place of another one with the same hash. Long words are not kept.
class WordCache {
 public:
  /// The calling thread's cache, emptied if it was last used by another tokenizer. `owner` is never reused.
  static WordCache& of_thread(std::uint64_t owner);

  /// Appends the tokens of a word, from the table or the model.
  void tokenize(const TokenModel& model, std::string_view word, std::vector<TokenModel::Token>& out);

 private:
  static constexpr std::size_t places = 1U << 14U, longest_word = 48, most_tokens = 9;
  struct Token {
    std::int32_t id;
    std::uint8_t begin, end;
  };
  struct Place {
    std::uint8_t bytes = 0, count = 0;
    char word[longest_word];
    Token tokens[most_tokens];
  };
  std::uint64_t owner_ = 0;
  std::vector<Place> places_;
};

}  // namespace lacuna
