// WordPiece: a word is covered by the longest tokens, from its beginning on.
#pragma once

#include "data/text/tokenizers/token_model.h"
#include "data/text/trie.h"

namespace lacuna {

class WordPiece final : public TokenModel {
 public:
  struct Options {
    std::string unknown = "[UNK]";
    std::string prefix = "##";        // of tokens that continue a word
    std::int64_t longest_word = 100;  // in characters; a longer word is the unknown token
  };
  WordPiece(TokenIds vocabulary, Options options);
  bool needs_unknown() const override { return true; }
  void tokenize(std::string_view word, std::vector<Token>& out) const override;

 private:
  Trie starts_, continuations_;  // tokens that begin a word, and those that continue one, without the prefix
  std::int32_t unknown_id_;
  std::int64_t longest_word_;
};

}  // namespace lacuna
