#include "data/text/tokenizers/word_cache.h"

#include <algorithm>

namespace lacuna {

WordCache& WordCache::of_thread(std::uint64_t owner) {
  thread_local WordCache cache;
  if (cache.owner_ != owner) {
    cache.places_.assign(places, {});
    cache.owner_ = owner;
  }
  return cache;
}

void WordCache::tokenize(const TokenModel& model, std::string_view word, std::vector<TokenModel::Token>& out) {
  if (word.size() > longest_word) return model.tokenize(word, out);
  Place& place = places_[TokenHash{}(word) % places];
  if (std::string_view(place.word, place.bytes) == word) {
    for (const Token& token : std::span(place.tokens, place.count)) out.push_back({token.id, token.begin, token.end});
    return;
  }
  const std::size_t before = out.size();
  model.tokenize(word, out);
  const std::span tokens = std::span(out).subspan(before);
  if (tokens.size() > most_tokens) return;
  std::ranges::copy(word, place.word);
  place.bytes = static_cast<std::uint8_t>(word.size());
  place.count = static_cast<std::uint8_t>(tokens.size());
  std::ranges::transform(tokens, place.tokens, [](const TokenModel::Token& token) {
    return Token{token.id, static_cast<std::uint8_t>(token.begin), static_cast<std::uint8_t>(token.end)};
  });
}

}  // namespace lacuna
