// The parts of a tokenizer, as its files say them.
#pragma once

#include "data/text/tokenizers/added_tokens.h"
#include "data/text/tokenizers/post_processor.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

class DecodingStep;
class Normalizer;
class PreTokenizer;
class TokenModel;

/// Settings of tokenizer_config.json for the users of a tokenizer.
struct TokenizerConfig {
  std::string class_name{};                             // tokenizer_class
  std::string bos{}, eos{}, pad{}, unknown{};           // special tokens; empty: none
  std::int64_t longest_text = 0;                        // model_max_length in tokens; 0: no limit
  std::map<std::string, std::string> chat_templates{};  // Jinja by name; the usual one is `default`
  std::string contradiction{};                          // of tokenizer.json, which is followed, for people; empty: none
};

struct TokenizerParts {
  TokenizerParts();
  TokenizerParts(TokenizerParts&&) noexcept;
  ~TokenizerParts();

  std::string source{};  // the file name, for messages
  std::vector<AddedToken> added{};
  std::vector<std::unique_ptr<const Normalizer>> normalizers{};
  std::vector<std::unique_ptr<const PreTokenizer>> pre_tokenizers{};
  std::unique_ptr<const TokenModel> model{};
  PostProcessor processor{};
  std::vector<std::unique_ptr<const DecodingStep>> decoders{};
  std::string mask = "[MASK]";
  std::vector<std::string> special{};  // names of special tokens; the vocabulary may lack some
  TokenizerConfig config{};

  /// The id of a token of the model or an added one; -1: none.
  std::int32_t find(std::string_view token) const;
};

/// Reads a tokenizer from a folder (`tokenizer.json`, or else `vocab.txt` with `tokenizer_config.json`) or from one of
/// these files. Rejects steps that are not supported, and damaged files; the message gives the location.
TokenizerParts read_tokenizer_files(const std::filesystem::path& path);
/// The texts of a tokenizer's existing files, by their standard names: `vocab.txt`, `tokenizer.json`,
/// `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`, `chat_template.jinja` and others. Empty if
/// `path` holds no tokenizer.
std::map<std::string, std::string> tokenizer_texts(const std::filesystem::path& path);
/// Makes `chat_template` the only one of a tokenizer's `texts`, in the file that transformers 5 writes.
void set_chat_template(const std::string& chat_template, std::map<std::string, std::string>& texts);

/// The text of a file, and the name that messages give it; no text: there is no such file.
struct TokenizerText {
  std::string text{}, source{};
};
/// The files beside `tokenizer.json` or `vocab.txt`. Tokens that they add are taken; contradictions are refused.
struct TokenizerSettings {
  TokenizerText config{}, special{}, added{};  // tokenizer_config.json, special_tokens_map.json, added_tokens.json
  TokenizerText vocabulary{};                  // vocab.txt beside tokenizer.json
  std::map<std::string, std::string> chat_templates{};  // in files of their own, by name
};
/// Parse the text of a tokenizer's files, for tests and fuzzing; `source` names it in messages.
TokenizerParts parse_tokenizer_json(const std::string& text, const std::string& source,
                                    const TokenizerSettings& settings = {});
TokenizerParts parse_vocabulary(const std::string& text, const std::string& source,
                                const TokenizerSettings& settings = {});

}  // namespace lacuna
