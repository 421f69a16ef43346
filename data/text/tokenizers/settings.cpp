#include "data/text/tokenizers/settings.h"

#include "data/text/tokenizers/token_model.h"

#include <algorithm>
#include <charconv>

namespace lacuna {
namespace {

using nlohmann::json;

json object_of(const TokenizerText& file) {
  return file.text.empty() ? json::object() : parse_json(file.text, file.source);
}

std::int32_t id_in(const std::string& text, const std::string& place) {
  std::int64_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc{} || end != text.data() + text.size())
    reject("{}: expected tokens by their ids, got `{}`", place, text);
  return checked_token_id(id, place);
}

}  // namespace

std::string token_in(const JsonReader& config, const char* key, const std::string& absent) {
  const json* const found = config.find(key);
  if (found != nullptr && found->is_object()) return JsonReader(*found, config.place()).text("content", absent);
  return config.text(key, absent);
}

SettingsReader::SettingsReader(const TokenizerSettings& files)
    : values_{object_of(files.config), object_of(files.special), object_of(files.added)},
      config_(values_[0], files.config.source),
      special_(values_[1], files.special.source),
      added_(values_[2], files.added.source),
      chat_templates_(files.chat_templates) {}

std::string SettingsReader::special(const char* key, const std::string& absent) const {
  const std::string one = token_in(config_, key, ""), other = token_in(special_, key, "");
  if (!one.empty() && !other.empty() && one != other)
    reject("{}: `{}` is {}, but {} in {}: the files contradict each other", config_.place(), key, one, other,
           special_.place());
  return !one.empty() ? one : other.empty() ? absent : other;
}

std::set<std::string> SettingsReader::additional() const {
  std::set<std::string> tokens;
  for (const JsonReader* const file : {&config_, &special_})
    for (const char* const key : {"additional_special_tokens", "extra_special_tokens"}) {
      const json* const list = file->find(key);
      if (list == nullptr) continue;
      if (!list->is_structured()) reject("{}.{}: expected a list of tokens", file->place(), key);
      for (const json& one : *list)
        tokens.insert(one.is_string() ? one.get<std::string>() : JsonReader(one, file->place()).text("content", ""));
    }
  return tokens;
}

void SettingsReader::declare(AddedToken token, const std::string& place, bool says_flags,
                             std::map<std::int32_t, std::string>& by_id, TokenizerParts& parts) const {
  const auto known = std::ranges::find(parts.added, token.content, &AddedToken::content);
  const std::int32_t in_vocabulary = parts.model->find(token.content);
  const std::int32_t id = known != parts.added.end() ? known->id : in_vocabulary >= 0 ? in_vocabulary : token.id;
  if (id != token.id)
    reject("{}: {} has the id {}, but {} in {}: the files contradict each other", place, token.content, token.id, id,
           parts.source);
  if (const auto other = by_id.find(token.id); other != by_id.end() && other->second != token.content)
    reject("{}: {} has the id {}, which {} has in {}: the files contradict each other", place, token.content, token.id,
           other->second, parts.source);
  if (known == parts.added.end()) {
    by_id.emplace(token.id, token.content);
    parts.added.push_back(std::move(token));
    return;
  }
  const auto flags = [](const AddedToken& one) {
    return std::tuple(one.normalized, one.single_word, one.strips_left, one.strips_right);
  };
  if (says_flags && flags(*known) != flags(token))
    reject(
        "{}: {} has other flags (normalized, single_word, lstrip, rstrip) than in {}: the files contradict each other",
        place, token.content, parts.source);
}

void SettingsReader::add_tokens(TokenizerParts& parts) const {
  std::map<std::int32_t, std::string> by_id;
  for (const auto& [token, id] : parts.model->vocabulary()) by_id.emplace(id, token);
  for (const AddedToken& token : parts.added) by_id.insert_or_assign(token.id, token.content);
  const std::set<std::string> more = additional();
  std::set<std::string> special = more;
  for (const char* const key :
       {"unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "bos_token", "eos_token"})
    special.insert(this->special(key, ""));
  special.erase("");
  if (config_.find("added_tokens_decoder") != nullptr) {
    const JsonReader decoder = config_.inner("added_tokens_decoder");
    for (const auto& [id, value] : decoder.value().items()) {
      const JsonReader token(value, decoder.place());
      const bool is_special = token.flag("special", false);
      AddedToken added{.content = token.text("content", ""),
                       .id = id_in(id, decoder.place()),
                       .normalized = token.flag("normalized", !is_special),
                       .single_word = token.flag("single_word", false),
                       .strips_left = token.flag("lstrip", false),
                       .strips_right = token.flag("rstrip", false),
                       .special = is_special};
      if (added.content.empty()) reject("{}: expected tokens with a `content`", decoder.place());
      declare(std::move(added), decoder.place(), true, by_id, parts);
    }
  }
  for (const auto& [content, id] : added_.value().items()) {
    const bool is_special = special.contains(content);
    declare(
        {.content = content, .id = token_id_in(id, added_.place()), .normalized = !is_special, .special = is_special},
        added_.place(), false, by_id, parts);
  }
  for (const std::string& token : special) {
    const std::int32_t id = parts.model->find(token);
    const bool is_added = std::ranges::find(parts.added, token, &AddedToken::content) != parts.added.end();
    if (id >= 0 && !is_added)
      parts.added.push_back({.content = token, .id = id, .special = true});
    else if (!is_added && more.contains(token))
      reject("{}: expected the special token {} with an id in {}, added_tokens.json or added_tokens_decoder, got none",
             config_.place(), token, parts.source);
  }
}

void SettingsReader::add_config(TokenizerParts& parts) const {
  parts.mask = special("mask_token", parts.mask);
  const std::string unknown = special("unk_token", parts.model == nullptr ? "" : parts.model->unknown());
  parts.config = {.class_name = config_.text("tokenizer_class", ""),
                  .bos = special("bos_token", ""),
                  .eos = special("eos_token", ""),
                  .pad = special("pad_token", ""),
                  .unknown = unknown};
  parts.special = {unknown, special("sep_token", "[SEP]"), special("pad_token", "[PAD]"), special("cls_token", "[CLS]"),
                   parts.mask};
  for (const std::string& token : {parts.config.bos, parts.config.eos})
    if (!token.empty()) parts.special.push_back(token);
  if (const json* const longest = config_.find("model_max_length")) {
    if (!longest->is_number()) reject("{}.model_max_length: expected a number", config_.place());
    const auto value = longest->get<double>();  // 1e30 stands for none
    if (value >= 1 && value < 1e9) parts.config.longest_text = static_cast<std::int64_t>(value);
  }
  add_chat_templates(parts);
}

void SettingsReader::add_chat_templates(TokenizerParts& parts) const {
  std::map<std::string, std::string>& templates = parts.config.chat_templates;
  if (const json* const found = config_.find("chat_template")) {
    if (found->is_array()) {
      for (const json& each : *found) {
        const JsonReader one(each, config_.place() + ".chat_template");
        templates[one.text("name")] = one.text("template");
      }
    } else {
      templates["default"] = config_.text("chat_template");
    }
  }
  if (!chat_templates_.empty()) templates = chat_templates_;
}

void SettingsReader::check_template(const TokenizerParts& parts) const {
  const std::vector<TemplateItem>& single = parts.processor.single;
  for (const char* const key : {"cls_token", "sep_token"}) {
    const std::string token = special(key, "");
    const std::int32_t id = parts.model->find(token);
    const bool has_any = std::ranges::any_of(single, [](const auto& item) { return item.text < 0; });
    if (id >= 0 && has_any && std::ranges::find(single, id, &TemplateItem::id) == single.end())
      reject("{}: `{}` is {}, which {} does not put around a text: the files contradict each other", config_.place(),
             key, token, parts.source);
  }
}

}  // namespace lacuna
