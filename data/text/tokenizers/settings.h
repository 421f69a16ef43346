// The files beside a vocabulary, which say tokens and flags, some of them twice.
#pragma once

#include "data/text/tokenizers/json_reader.h"
#include "data/text/tokenizers/parts.h"

#include <set>

namespace lacuna {

class SettingsReader {
 public:
  explicit SettingsReader(const TokenizerSettings& files);

  const JsonReader& config() const { return config_; }
  /// The special token `key`; the files that say it must agree.
  std::string special(const char* key, const std::string& absent) const;
  /// Adds the tokens of added_tokens_decoder and of added_tokens.json. Refuses an id that another token has, and a
  /// special token without one.
  void add_tokens(TokenizerParts& parts) const;
  /// Sets the names of special tokens and the settings for users.
  void add_config(TokenizerParts& parts) const;
  /// Refuses tokens around a text that are others in tokenizer.json.
  void check_template(const TokenizerParts& parts) const;

 private:
  /// Special tokens beside BERT's own, which must have an id.
  std::set<std::string> additional() const;
  void declare(AddedToken token, const std::string& place, bool says_flags, std::map<std::int32_t, std::string>& by_id,
               TokenizerParts& parts) const;
  void add_chat_templates(TokenizerParts& parts) const;

  nlohmann::json values_[3];
  JsonReader config_, special_, added_;
  std::map<std::string, std::string> chat_templates_;
};

/// A token as a text, or as an object with `content`.
std::string token_in(const JsonReader& config, const char* key, const std::string& absent);

}  // namespace lacuna
