// Models that turn a word into tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lacuna {

class JsonReader;

struct TokenHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
/// Ids by token.
using TokenIds = std::unordered_map<std::string, std::int32_t, TokenHash, std::equal_to<>>;

class TokenModel {
 public:
  /// A token, and the bytes [begin, end) of the word that it covers.
  struct Token {
    std::int32_t id;
    std::uint32_t begin, end;
  };
  static constexpr const char* key = "model";

  /// `unknown`: the token for what the vocabulary lacks, which may have no id.
  TokenModel(TokenIds vocabulary, std::string unknown) : ids_(std::move(vocabulary)), unknown_(std::move(unknown)) {}
  virtual ~TokenModel() = default;

  const TokenIds& vocabulary() const { return ids_; }
  const std::string& unknown() const { return unknown_; }
  /// Whether every tokenizer with this model needs an unknown token.
  virtual bool needs_unknown() const { return false; }
  std::int32_t find(std::string_view token) const {  // -1: none
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }

  /// Appends the tokens of a word, which is UTF-8 and not empty. Thread-safe.
  virtual void tokenize(std::string_view word, std::vector<Token>& out) const = 0;

 protected:
  /// Refuses a text that needs the unknown token where there is none.
  [[noreturn]] void reject_unknown(std::string_view part) const;

 private:
  TokenIds ids_;
  std::string unknown_;
};

/// Ids of the tokens `<0x00>` to `<0xFF>`; -1: none.
struct ByteTokens {
  std::int32_t ids[256];
  explicit ByteTokens(const TokenIds& vocabulary);
  /// Whether every byte of `text` has a token.
  bool cover(std::string_view text) const;
};

/// Frees a thread's scratch that a long word has made large.
template <class T>
void shrink_scratch(std::vector<T>& scratch) {
  if (scratch.capacity() > 1U << 16U) std::vector<T>().swap(scratch);
}

/// Reads the member `vocab` {token: id}.
TokenIds read_token_ids(const JsonReader& model);

}  // namespace lacuna
