#include "core/error.h"
#include "data/text/text_file.h"
#include "data/text/tokenizer.h"
#include "data/text/utf8.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t most_ids = std::int64_t{1} << 24;

json parse(const std::string& text, const std::string& source) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {  // the error states line and column
    reject("{}: expected JSON: {}", source, error.what());
  }
}

/// Reads the values of a JSON object; errors name the file.
class Reader {
 public:
  Reader(const json& value, std::string place) : value_(value), place_(std::move(place)) {
    if (!value_.is_object()) reject("{}: expected an object, got {}", place_, value_.type_name());
  }

  const json* find(const char* key) const {
    const auto found = value_.find(key);
    return found == value_.end() || found->is_null() ? nullptr : &*found;
  }
  template <class T>
  T get(const char* key, T absent, bool (json::*is)() const noexcept, const char* expected) const {
    const json* const found = find(key);
    if (found == nullptr) return absent;
    if (!(found->*is)()) reject("{}.{}: expected {}, got {}", place_, key, expected, found->type_name());
    return found->get<T>();
  }
  bool flag(const char* key, bool absent) const { return get(key, absent, &json::is_boolean, "true or false"); }
  std::string text(const char* key, const std::string& absent) const {
    return get(key, absent, &json::is_string, "text");
  }
  std::int64_t number(const char* key, std::int64_t absent) const {
    return get(key, absent, &json::is_number_integer, "a whole number");
  }
  Reader inner(const char* key) const {
    const json* const found = find(key);
    if (found == nullptr) reject("{}: expected `{}`, which is missing", place_, key);
    return {*found, fmt::format("{}.{}", place_, key)};
  }
  const json& value() const { return value_; }
  const std::string& place() const { return place_; }

 private:
  const json& value_;
  std::string place_;
};

std::int32_t checked_id(std::int64_t id, const std::string& place) {
  if (id < 0 || id >= most_ids) reject("{}: expected a token id from 0 to {}, got {}", place, most_ids - 1, id);
  return static_cast<std::int32_t>(id);
}

/// A step of the given kind, or a sequence of only that step; null if there is none.
const json* step_of(const Reader& root, const char* key, std::string_view type, const char* steps) {
  const json* step = root.find(key);
  if (step == nullptr) return nullptr;
  Reader reader(*step, fmt::format("{}.{}", root.place(), key));
  if (reader.text("type", "") == "Sequence") {
    const json* const list = reader.find(steps);
    if (list != nullptr && list->is_array() && list->size() == 1) step = &list->front();
  }
  const std::string found = Reader(*step, reader.place()).text("type", "");
  if (found != type)
    reject("{}: expected a {} of type {}, as BERT's tokenizers have, got {}", reader.place(), key, type,
           found.empty() ? "none" : found);
  return step;
}

void read_model(const Reader& root, TokenizerFiles& files) {
  const Reader model = root.inner("model");
  const std::string type = model.text("type", "WordPiece");
  if (type != "WordPiece")
    reject("{}: expected a tokenizer of type WordPiece, as BERT and its kin have, got {}", files.source, type);
  files.unknown = model.text("unk_token", files.unknown);
  files.prefix = model.text("continuing_subword_prefix", files.prefix);
  files.longest_word = model.number("max_input_chars_per_word", files.longest_word);
  const Reader vocabulary = model.inner("vocab");
  for (const auto& [token, id] : vocabulary.value().items()) {
    if (!id.is_number_integer())
      reject("{}: expected the id of the token {}, got {}", vocabulary.place(), token, id.dump());
    files.vocabulary[token] = checked_id(id.get<std::int64_t>(), vocabulary.place());
  }
}

void read_normalizer(const Reader& root, TokenizerFiles& files) {
  const json* const step = step_of(root, "normalizer", "BertNormalizer", "normalizers");
  files.normalizes = step != nullptr;
  if (step == nullptr) return;
  const Reader normalizer(*step, root.place() + ".normalizer");
  files.cleans = normalizer.flag("clean_text", true);
  files.spaces_cjk = normalizer.flag("handle_chinese_chars", true);
  files.lowers = normalizer.flag("lowercase", true);
  files.strips_accents = normalizer.flag("strip_accents", files.lowers);
}

std::vector<TokenizerFiles::TemplateItem> read_template(const Reader& processor, const char* key) {
  std::vector<TokenizerFiles::TemplateItem> items;
  const json* const list = processor.find(key);
  const std::string place = fmt::format("{}.{}", processor.place(), key);
  if (list == nullptr || !list->is_array()) reject("{}: expected a list", place);
  const Reader special = processor.inner("special_tokens");
  for (const json& each : *list) {
    const Reader item(each, place);
    const bool sequence = item.find("Sequence") != nullptr;
    const Reader body = item.inner(sequence ? "Sequence" : "SpecialToken");
    const std::string id = body.text("id", "");
    const std::int64_t type = body.number("type_id", 0);
    if (type < 0 || type > 1) reject("{}: expected type_id 0 or 1, got {}", place, type);
    if (!items.empty() && type < items.back().type)  // EncodedText stores only the position where the type rises
      reject("{}: expected type_id 0 before 1, as BERT's tokenizers have, got 0 after 1", place);
    if (sequence) {
      if (id != "A" && id != "B") reject("{}: expected the sequence A or B, got {}", place, id);
      items.push_back({.text = id == "A" ? 0 : 1, .type = type});
      continue;
    }
    const json* const ids = special.inner(id.c_str()).find("ids");
    if (ids == nullptr || !ids->is_array()) reject("{}.{}: expected a list of ids", special.place(), id);
    for (const json& number : *ids) {
      if (!number.is_number_integer()) reject("{}.{}: expected a list of ids", special.place(), id);
      items.push_back({.id = checked_id(number.get<std::int64_t>(), special.place()), .type = type});
    }
  }
  return items;
}

/// BERT's template: [CLS] A [SEP] and [CLS] A [SEP] B [SEP].
void set_bert_template(TokenizerFiles& files, std::int32_t begin, std::int32_t separator) {
  files.single = {{.id = begin}, {.text = 0}, {.id = separator}};
  files.pair = {{.id = begin}, {.text = 0}, {.id = separator}, {.text = 1, .type = 1}, {.id = separator, .type = 1}};
}

void read_processor(const Reader& root, TokenizerFiles& files) {
  const json* const found = root.find("post_processor");
  if (found == nullptr) {
    files.single = {{.text = 0}};
    files.pair = {{.text = 0}, {.text = 1}};
    return;
  }
  const Reader processor(*found, root.place() + ".post_processor");
  const std::string type = processor.text("type", "");
  if (type == "BertProcessing") {
    const auto id_of = [&](const char* key) {
      const json* const token = processor.find(key);
      if (token == nullptr || !token->is_array() || token->size() != 2 || !(*token)[1].is_number_integer())
        reject("{}.{}: expected a token and its id", processor.place(), key);
      return checked_id((*token)[1].get<std::int64_t>(), processor.place());
    };
    set_bert_template(files, id_of("cls"), id_of("sep"));
  } else if (type == "TemplateProcessing") {
    files.single = read_template(processor, "single");
    files.pair = read_template(processor, "pair");
    for (const auto* const items : {&files.single, &files.pair})
      for (const int text : {0, 1})
        if (std::ranges::count(*items, text, &TokenizerFiles::TemplateItem::text) !=
            (text == 0 || items == &files.pair))
          reject("{}: expected `single` with the sequence A, and `pair` with A and B", processor.place());
  } else {
    reject("{}: expected a post_processor of type TemplateProcessing or BertProcessing, got {}", files.source, type);
  }
}

void read_added(const Reader& root, TokenizerFiles& files) {
  const json* const list = root.find("added_tokens");
  if (list == nullptr) return;
  const std::string place = root.place() + ".added_tokens";
  if (!list->is_array()) reject("{}: expected a list", place);
  for (const json& each : *list) {
    const Reader token(each, place);
    TokenizerFiles::AddedToken added{.content = token.text("content", ""),
                                     .id = checked_id(token.number("id", -1), place),
                                     .normalized = token.flag("normalized", false),
                                     .single_word = token.flag("single_word", false),
                                     .special = token.flag("special", false)};
    if (added.content.empty()) reject("{}: expected tokens with a `content`", place);
    files.added.push_back(std::move(added));
  }
}

std::string token_in(const Reader& config, const char* key, const std::string& absent) {
  const json* const found = config.find(key);
  if (found != nullptr && found->is_object()) return Reader(*found, config.place()).text("content", absent);
  return config.text(key, absent);
}

void read_special_names(const Reader& config, TokenizerFiles& files) {
  files.mask = token_in(config, "mask_token", files.mask);
  files.special = {token_in(config, "unk_token", files.unknown), token_in(config, "sep_token", "[SEP]"),
                   token_in(config, "pad_token", "[PAD]"), token_in(config, "cls_token", "[CLS]"), files.mask};
}

}  // namespace

TokenizerFiles parse_tokenizer_json(const std::string& text, const std::string& source, const std::string& config,
                                    const std::string& config_source) {
  TokenizerFiles files{.source = source};
  const json value = parse(text, source);
  const Reader root(value, source);
  read_model(root, files);
  read_normalizer(root, files);
  if (step_of(root, "pre_tokenizer", "BertPreTokenizer", "pretokenizers") == nullptr)
    reject("{}: expected a pre_tokenizer of type BertPreTokenizer, as BERT's tokenizers have, got none", source);
  read_processor(root, files);
  read_added(root, files);
  const json settings = config.empty() ? json::object() : parse(config, config_source);
  read_special_names(Reader(settings, config_source), files);
  return files;
}

TokenizerFiles parse_vocabulary(const std::string& text, const std::string& source, const std::string& config,
                                const std::string& config_source) {
  TokenizerFiles files{.source = source};
  std::int64_t line = 0;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string token = text.substr(begin, end - begin);
    while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
    if (find_broken_utf8(token) != std::string::npos)
      reject("{}:{}: expected a token in UTF-8 on each line: the file is damaged or no vocabulary", source, line + 1);
    if (line >= most_ids) reject("{}: expected {} lines at most, a token on each", source, most_ids);
    if (!token.empty()) files.vocabulary[std::move(token)] = static_cast<std::int32_t>(line);
    begin = end + 1;
  }
  const json value = config.empty() ? json::object() : parse(config, config_source);
  const Reader settings(value, config_source);
  files.lowers = settings.flag("do_lower_case", true);
  files.strips_accents = settings.flag("strip_accents", files.lowers);
  files.spaces_cjk = settings.flag("tokenize_chinese_chars", true);
  files.unknown = token_in(settings, "unk_token", files.unknown);
  const auto id_of = [&](const char* key, const std::string& absent) {
    const std::string token = token_in(settings, key, absent);
    const auto found = files.vocabulary.find(token);
    if (found == files.vocabulary.end())
      reject("{}: expected a vocabulary with the token {}, got {} lines without it", source, token, line);
    return found->second;
  };
  const std::int32_t begin = id_of("cls_token", "[CLS]");
  set_bert_template(files, begin, id_of("sep_token", "[SEP]"));
  read_special_names(settings, files);
  for (const std::string& token : files.special)
    if (const auto found = files.vocabulary.find(token); found != files.vocabulary.end())
      files.added.push_back({.content = token, .id = found->second, .special = true});
  return files;
}

std::map<std::string, std::string> tokenizer_texts(const fs::path& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  std::map<std::string, fs::path> files;  // by standard name
  if (is_folder)
    for (const char* const name : {"tokenizer.json", "vocab.txt"}) files.emplace(name, path / name);
  else
    files.emplace(path.extension() == ".json" ? "tokenizer.json" : "vocab.txt", path);
  std::map<std::string, std::string> texts;
  const auto take = [&] {
    for (const auto& [name, file] : files)
      if (fs::is_regular_file(file, ignored)) texts[name] = read_whole_file(file, "tokenizer", 256 << 20);
  };
  take();
  if (texts.empty()) return texts;
  files.clear();
  for (const char* const name : {"tokenizer_config.json", "special_tokens_map.json"})
    files.emplace(name, (is_folder ? path : path.parent_path()) / name);
  take();
  return texts;
}

TokenizerFiles read_tokenizer_files(const fs::path& path) {
  std::error_code ignored;
  fs::path file = path;
  if (fs::is_directory(path, ignored)) {
    file = path / "tokenizer.json";
    if (!fs::exists(file, ignored)) file = path / "vocab.txt";
    if (!fs::exists(file, ignored))
      reject("{}: expected a folder with tokenizer.json or vocab.txt; the folder of a model has one", path.native());
  }
  const std::string text = read_whole_file(file, "tokenizer", 256 << 20);
  const fs::path config_file = file.parent_path() / "tokenizer_config.json";
  const std::string config = fs::exists(config_file, ignored)
                                 ? read_whole_file(config_file, "tokenizer configuration", 16 << 20)
                                 : std::string();
  const auto parse_files = file.extension() == ".json" ? &parse_tokenizer_json : &parse_vocabulary;
  return parse_files(text, file.native(), config, config_file.native());
}

}  // namespace lacuna
