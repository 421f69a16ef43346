// Tokenizers of transformers' folders, with the ids of Hugging Face's tokenizers library (0.23).
#pragma once

#include "data/text/tokenizers/parts.h"
#include "data/vocabulary.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lacuna {

struct NormalizedText;

/// The text that is truncated if a pair is too long.
enum class Truncation : std::uint8_t { longest_first, only_first, only_second };

/// Turns texts into ids and back: added tokens, normalizers, pre-tokenizers, a model, special tokens around it.
class Tokenizer {
 public:
  /// A token of a text, and the bytes [begin, end) of the text that it covers.
  struct Piece {
    std::int32_t id;
    std::uint32_t begin, end;
  };
  /// An encoded text or pair, with special tokens.
  struct Encoding {
    std::vector<std::int32_t> tokens;
    std::vector<std::int8_t> types;  // per token: 0, or 1 for the second text
    std::vector<std::int32_t>
        sources;  // per token: 2 · (index of its piece) + (index of its text); -1 for special tokens
  };

  explicit Tokenizer(TokenizerParts parts);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const TokenizerConfig& config() const { return parts_.config; }
  /// The id of a token, if there is one.
  std::optional<std::int32_t> find(std::string_view token) const;
  /// The id of a token. A missing token is the input's fault; the message says what it is needed for.
  std::int32_t id_of(std::string_view token, std::string_view wanted_for) const;
  /// The tokens by id; an id without one has an empty text.
  std::vector<std::string> tokens() const;
  /// Number of special tokens added to a single text or to a pair.
  std::int64_t special_tokens(bool pair) const;

  /// Splits a text into pieces, without special tokens. A text that is not UTF-8 is the input's fault. Thread-safe.
  std::vector<Piece> pieces(std::string_view text) const;
  /// Adds special tokens to pieces and truncates to `max_length` tokens; 0: no limit.
  Encoding join(const std::vector<Piece>& text, std::int64_t max_length = 0) const;
  Encoding join(const std::vector<Piece>& text, const std::vector<Piece>& pair, std::int64_t max_length = 0,
                Truncation truncation = Truncation::longest_first) const;
  Encoding encode(std::string_view text, std::int64_t max_length = 0) const { return join(pieces(text), max_length); }
  Encoding encode(std::string_view text, std::string_view pair, std::int64_t max_length = 0,
                  Truncation truncation = Truncation::longest_first) const {
    return join(pieces(text), pieces(pair), max_length, truncation);
  }

  /// The text of ids. `skip_special` leaves special tokens out; ids without a token are left out. Thread-safe.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// Whether the text of a special token stands in a text, which becomes that token.
  bool has_special(std::string_view text) const;

  /// A remark for people where transformers gives other ids for some texts; empty: none.
  std::string remark() const;

 private:
  /// White space at the ends of a token, in characters.
  struct Blanks {
    std::uint32_t before = 0, after = 0;
    bool is_all = true;  // the token has nothing else
  };
  Vocabulary describe() const;
  void normalize(NormalizedText& text) const;
  void add_text(NormalizedText text, std::vector<Piece>& out) const;
  void add_piece(std::int32_t id, std::uint32_t begin, std::uint32_t end, Blanks blanks, std::vector<Piece>& out) const;
  Encoding fill(const std::vector<TemplateItem>& items, const std::vector<Piece>* texts[2],
                const std::int64_t (&kept)[2]) const;

  TokenizerParts parts_;
  Vocabulary vocabulary_;
  AddedTokens added_raw_, added_normalized_;
  std::unordered_map<std::int32_t, std::string_view> by_id_;
  std::unordered_set<std::int32_t> special_ids_;     // left out by decode
  std::unordered_map<std::int32_t, Blanks> blanks_;  // of the model's tokens, where spans are trimmed
  std::uint64_t number_;                             // of this tokenizer in the process
};

/// The lengths to which two texts of `first` and `second` tokens are truncated so that together they fit `budget`: the
/// longer one is truncated first, as in the tokenizers library.
std::pair<std::int64_t, std::int64_t> longest_first(std::int64_t first, std::int64_t second, std::int64_t budget);

/// Opens the tokenizer of a folder or file.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace lacuna
