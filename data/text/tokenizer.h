// WordPiece as BERT and its kin use it, to the ids of the tokenizers library (Hugging Face, 0.23).
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
    bool normalized = false;   // content and text are compared once normalized
    bool single_word = false;  // only where no letter or digit stands beside it
    bool special = false;      // no part of a text
  };
  /// A part of what a text or a pair becomes: a special token, or a text (0 or 1).
  struct TemplateItem {
    std::int32_t id = -1;  // of a special token
    int text = -1;
    std::int64_t type = 0;
  };

  std::string source;                                             // the file, for messages
  std::map<std::string, std::int32_t, std::less<>> vocabulary{};  // ids of [0, vocabulary_size)
  std::vector<AddedToken> added{};
  std::string unknown = "[UNK]", mask = "[MASK]";
  std::vector<std::string> special{};  // names of special tokens, which the vocabulary may lack
  std::string prefix = "##";           // of pieces within a word
  std::int64_t longest_word = 100;     // characters; a longer one is unknown
  bool normalizes = true;              // whether the four flags below mean anything
  bool cleans = true;
  bool spaces_cjk = true;
  bool strips_accents = true;
  bool lowers = true;
  std::vector<TemplateItem> single{}, pair{};
};

/// The vocabulary and rules of a folder (`tokenizer.json`, else `vocab.txt`, with `tokenizer_config.json`), or of one
/// of these files. Refuses tokenizers that are no WordPiece, and damaged files, with their place.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& path);
/// The files of a tokenizer that are there, by the names under which a folder has them, with their text: `vocab.txt`,
/// `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json`. Empty where `path` holds no tokenizer.
std::map<std::string, std::string> tokenizer_texts(const std::filesystem::path& path);
/// The same from text, for tests and fuzzing; `source` names it in messages. `config`: the text of
/// `tokenizer_config.json`, or empty.
TokenizerFiles parse_tokenizer_json(const std::string& text, const std::string& source, const std::string& config = {},
                                    const std::string& config_source = {});
TokenizerFiles parse_vocabulary(const std::string& text, const std::string& source, const std::string& config,
                                const std::string& config_source);

/// The text that is truncated if a sample is too long.
enum class Truncation : std::uint8_t { longest_first, only_first, only_second };

class Tokenizer {
 public:
  /// A piece of a text, and the bytes [begin, end) of the text that it stands for.
  struct Piece {
    std::int32_t id;
    std::uint32_t begin, end;
  };
  /// A text or a pair with its special tokens.
  struct Encoding {
    std::vector<std::int32_t> tokens;
    std::vector<std::int8_t> types;     // of each token: 0, or 1 for the second text
    std::vector<std::int32_t> sources;  // of each token: 2 · (its piece's number) + (its text), -1 for special tokens
  };

  explicit Tokenizer(TokenizerFiles files);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The id of a token; an error of the input that says what it is wanted for.
  std::int32_t id_of(std::string_view token, std::string_view wanted_for) const;
  /// Special tokens that are added to one text, or to a pair.
  std::int64_t special_tokens(bool pair) const;

  /// The pieces of a text without special tokens. An error of the input where it is not UTF-8. Any thread may call it.
  std::vector<Piece> pieces(std::string_view text) const;
  /// Puts pieces together with special tokens; cuts to `max_length` tokens, where 0 is no limit.
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
  Trie starts_, continuations_;  // pieces that begin a word, and those within one, without the prefix
  Trie added_raw_, added_normalized_;
};

/// The lengths to which two texts of `first` and `second` tokens are truncated so that both fit `budget`: the longer
/// one is cut first, as by the tokenizers library.
std::pair<std::int64_t, std::int64_t> longest_first(std::int64_t first, std::int64_t second, std::int64_t budget);

/// The tokenizer of a folder or file; one that was opened last is not read again.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace lacuna
