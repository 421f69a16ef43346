// BERT's WordPiece tokenizer, with the same ids as Hugging Face's tokenizers library (0.23).
#pragma once

#include "data/text/trie.h"
#include "data/vocabulary.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// The content of a tokenizer's files.
struct TokenizerFiles {
  struct AddedToken {
    std::string content;
    std::int32_t id = 0;
    bool normalized = false;   // matched against the normalized text
    bool single_word = false;  // matched only if no letter or digit is adjacent
    bool special = false;      // a special token, not part of a text
  };
  /// An item of the post-processing template: a special token, or a text (0 or 1).
  struct TemplateItem {
    std::int32_t id = -1;  // id of a special token; -1: a text
    int text = -1;
    std::int64_t type = 0;
  };

  std::string source;                                             // the file name, for messages
  std::map<std::string, std::int32_t, std::less<>> vocabulary{};  // ids in [0, vocabulary_size)
  std::vector<AddedToken> added{};
  std::string unknown = "[UNK]", mask = "[MASK]";
  std::vector<std::string> special{};  // names of special tokens; the vocabulary may lack some
  std::string prefix = "##";           // prefix of pieces that continue a word
  std::int64_t longest_word = 100;     // in characters; a longer word is the unknown token
  bool normalizes = true;              // whether text is normalized; the four flags below say how
  bool cleans = true;
  bool spaces_cjk = true;
  bool strips_accents = true;
  bool lowers = true;
  std::vector<TemplateItem> single{}, pair{};
};

/// Reads a tokenizer from a folder (`tokenizer.json`, or else `vocab.txt` with `tokenizer_config.json`) or from one of
/// these files. Rejects tokenizers other than WordPiece, and damaged files; the message gives the location.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& path);
/// The texts of a tokenizer's existing files, by their standard names: `vocab.txt`, `tokenizer.json`,
/// `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`. Empty if `path` holds no tokenizer.
std::map<std::string, std::string> tokenizer_texts(const std::filesystem::path& path);
/// The text of a file, and the name that messages give it; no text: there is no such file.
struct TokenizerText {
  std::string text{}, source{};
};
/// The files beside `tokenizer.json` or `vocab.txt`. Tokens that they add are taken; contradictions are refused.
struct TokenizerSettings {
  TokenizerText config{}, special{}, added{};  // tokenizer_config.json, special_tokens_map.json, added_tokens.json
  TokenizerText vocabulary{};                  // vocab.txt beside tokenizer.json
};
/// Parse the text of a tokenizer's files, for tests and fuzzing; `source` names it in messages.
TokenizerFiles parse_tokenizer_json(const std::string& text, const std::string& source,
                                    const TokenizerSettings& settings = {});
TokenizerFiles parse_vocabulary(const std::string& text, const std::string& source,
                                const TokenizerSettings& settings = {});

/// The text that is truncated if a pair is too long.
enum class Truncation : std::uint8_t { longest_first, only_first, only_second };

class Tokenizer {
 public:
  /// A WordPiece, and the bytes [begin, end) of the text that it covers.
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

  explicit Tokenizer(TokenizerFiles files);

  const Vocabulary& vocabulary() const { return vocabulary_; }
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

 private:
  class Words;
  std::optional<std::int32_t> find(std::string_view token) const;
  Vocabulary describe() const;
  Encoding fill(const std::vector<TokenizerFiles::TemplateItem>& items, const std::vector<Piece>* texts[2],
                const std::int64_t (&kept)[2]) const;

  TokenizerFiles files_;
  Vocabulary vocabulary_;
  std::int32_t unknown_ = 0;
  Trie starts_, continuations_;  // pieces that begin a word, and those that continue one, without the prefix
  Trie added_raw_, added_normalized_;
};

/// The lengths to which two texts of `first` and `second` tokens are truncated so that together they fit `budget`: the
/// longer one is truncated first, as in the tokenizers library.
std::pair<std::int64_t, std::int64_t> longest_first(std::int64_t first, std::int64_t second, std::int64_t budget);

/// Opens the tokenizer of a folder or file.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace lacuna
