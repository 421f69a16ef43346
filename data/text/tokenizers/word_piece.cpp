#include "data/text/tokenizers/word_piece.h"

#include "data/text/tokenizers/steps.h"

#include <algorithm>

namespace lacuna {

WordPiece::WordPiece(TokenIds ids, Options options)
    : TokenModel(std::move(ids), std::move(options.unknown)),
      unknown_id_(find(unknown())),
      longest_word_(options.longest_word) {
  for (const auto& [token, id] : vocabulary()) {
    starts_.insert(token, id);
    if (token.starts_with(options.prefix))
      continuations_.insert(std::string_view(token).substr(options.prefix.size()), id);
  }
}

void WordPiece::tokenize(std::string_view word, std::vector<Token>& out) const {
  const std::size_t before = out.size();
  const auto characters = std::ranges::count_if(word, [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; });
  std::size_t at = 0;
  while (characters <= longest_word_ && at < word.size()) {
    const auto [id, length] = (at == 0 ? starts_ : continuations_).longest(word.substr(at));
    if (length == 0) break;
    out.push_back({id, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + length)});
    at += length;
  }
  if (at == word.size()) return;
  out.resize(before);
  out.push_back({unknown_id_, 0, static_cast<std::uint32_t>(word.size())});
}

namespace {

const RegisterStep<TokenModel> word_piece("WordPiece",
                                          [](const JsonReader& object) -> std::unique_ptr<const TokenModel> {
                                            WordPiece::Options options;
                                            options.unknown = object.text("unk_token", options.unknown);
                                            options.prefix = object.text("continuing_subword_prefix", options.prefix);
                                            options.longest_word =
                                                object.number("max_input_chars_per_word", options.longest_word);
                                            return std::make_unique<WordPiece>(read_token_ids(object),
                                                                               std::move(options));
                                          });

}  // namespace
}  // namespace lacuna
