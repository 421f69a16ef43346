#include "core/error.h"
#include "data/text/text_file.h"
#include "data/text/tokenizer.h"
#include "data/text/utf8.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
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

json object_of(const TokenizerText& file) { return file.text.empty() ? json::object() : parse(file.text, file.source); }

/// The files beside a vocabulary, which say tokens and flags, some of them twice.
class Beside {
 public:
  explicit Beside(const TokenizerSettings& files)
      : values_{object_of(files.config), object_of(files.special), object_of(files.added)},
        config_(values_[0], files.config.source),
        special_(values_[1], files.special.source),
        added_(values_[2], files.added.source) {}

  const Reader& config() const { return config_; }

  /// The special token `key`; the files that say it must agree.
  std::string special(const char* key, const std::string& absent) const {
    const std::string one = token_in(config_, key, ""), other = token_in(special_, key, "");
    if (!one.empty() && !other.empty() && one != other)
      reject("{}: `{}` is {}, but {} in {}: the files contradict each other", config_.place(), key, one, other,
             special_.place());
    return !one.empty() ? one : other.empty() ? absent : other;
  }

  /// Special tokens beside BERT's own, which must have an id.
  std::set<std::string> additional() const {
    std::set<std::string> tokens;
    for (const Reader* const file : {&config_, &special_})
      for (const char* const key : {"additional_special_tokens", "extra_special_tokens"}) {
        const json* const list = file->find(key);
        if (list == nullptr) continue;
        if (!list->is_structured()) reject("{}.{}: expected a list of tokens", file->place(), key);
        for (const json& one : *list)
          tokens.insert(one.is_string() ? one.get<std::string>() : Reader(one, file->place()).text("content", ""));
      }
    return tokens;
  }

  /// Adds the tokens of added_tokens_decoder and of added_tokens.json. Refuses an id that another token has, and a
  /// special token without one.
  void add_to(TokenizerFiles& files) const {
    std::map<std::int32_t, std::string> by_id;
    for (const auto& [token, id] : files.vocabulary) by_id.emplace(id, token);
    for (const TokenizerFiles::AddedToken& token : files.added) by_id.insert_or_assign(token.id, token.content);
    const auto declare = [&](TokenizerFiles::AddedToken token, const std::string& place, bool says_flags) {
      const auto known = std::ranges::find(files.added, token.content, &TokenizerFiles::AddedToken::content);
      const auto in_vocabulary = files.vocabulary.find(token.content);
      const std::int32_t id = known != files.added.end()                ? known->id
                              : in_vocabulary != files.vocabulary.end() ? in_vocabulary->second
                                                                        : token.id;
      if (id != token.id)
        reject("{}: {} has the id {}, but {} in {}: the files contradict each other", place, token.content, token.id,
               id, files.source);
      if (const auto other = by_id.find(token.id); other != by_id.end() && other->second != token.content)
        reject("{}: {} has the id {}, which {} has in {}: the files contradict each other", place, token.content,
               token.id, other->second, files.source);
      if (known == files.added.end()) {
        by_id.emplace(token.id, token.content);
        files.added.push_back(std::move(token));
      } else if (says_flags && (known->normalized != token.normalized || known->single_word != token.single_word)) {
        reject("{}: {} has other flags (normalized, single_word) than in {}: the files contradict each other", place,
               token.content, files.source);
      }
    };
    const std::set<std::string> more = additional();
    std::set<std::string> special = more;
    for (const char* const key :
         {"unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "bos_token", "eos_token"})
      special.insert(this->special(key, ""));
    if (config_.find("added_tokens_decoder") != nullptr) {
      const Reader decoder = config_.inner("added_tokens_decoder");
      for (const auto& [id, value] : decoder.value().items()) {
        const Reader token(value, decoder.place());
        const bool is_special = token.flag("special", false);
        TokenizerFiles::AddedToken added{.content = token.text("content", ""),
                                         .id = id_in(id, decoder.place()),
                                         .normalized = token.flag("normalized", !is_special),
                                         .single_word = token.flag("single_word", false),
                                         .special = is_special};
        if (added.content.empty()) reject("{}: expected tokens with a `content`", decoder.place());
        declare(std::move(added), decoder.place(), true);
      }
    }
    for (const auto& [content, id] : added_.value().items()) {
      if (!id.is_number_integer()) reject("{}: expected the id of {}, got {}", added_.place(), content, id.dump());
      const bool is_special = special.contains(content);
      declare({.content = content,
               .id = checked_id(id.get<std::int64_t>(), added_.place()),
               .normalized = !is_special,
               .special = is_special},
              added_.place(), false);
    }
    for (const std::string& token : special) {
      const auto found = files.vocabulary.find(token);
      const bool is_added =
          std::ranges::find(files.added, token, &TokenizerFiles::AddedToken::content) != files.added.end();
      if (found != files.vocabulary.end() && !is_added)
        files.added.push_back({.content = token, .id = found->second, .special = true});
      else if (!is_added && more.contains(token))
        reject(
            "{}: expected the special token {} with an id in {}, added_tokens.json or added_tokens_decoder, got none",
            config_.place(), token, files.source);
    }
  }

 private:
  static std::int32_t id_in(const std::string& text, const std::string& place) {
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc{} || end != text.data() + text.size())
      reject("{}: expected tokens by their ids, got `{}`", place, text);
    return checked_id(id, place);
  }

  json values_[3];
  Reader config_, special_, added_;
};

void read_special_names(const Beside& beside, TokenizerFiles& files) {
  files.mask = beside.special("mask_token", files.mask);
  files.special = {beside.special("unk_token", files.unknown), beside.special("sep_token", "[SEP]"),
                   beside.special("pad_token", "[PAD]"), beside.special("cls_token", "[CLS]"), files.mask};
}

/// Refuses a flag of tokenizer_config.json that tokenizer.json contradicts: transformers follows the one, the
/// tokenizers library the other.
void check_flags(const Reader& config, const TokenizerFiles& files) {
  for (const auto& [key, value] : {std::pair{"do_lower_case", files.normalizes && files.lowers},
                                   {"strip_accents", files.normalizes && files.strips_accents},
                                   {"tokenize_chinese_chars", files.normalizes && files.spaces_cjk}})
    if (config.flag(key, value) != value)
      reject("{}: `{}` is {}, but {} in {}: the files contradict each other", config.place(), key, !value, value,
             files.source);
  if (const std::string token = token_in(config, "unk_token", files.unknown); token != files.unknown)
    reject("{}: `unk_token` is {}, but {} in {}: the files contradict each other", config.place(), token, files.unknown,
           files.source);
}

/// Refuses tokens around a text that are others in tokenizer.json.
void check_template(const Beside& beside, const TokenizerFiles& files) {
  for (const char* const key : {"cls_token", "sep_token"}) {
    const std::string token = beside.special(key, "");
    const auto found = files.vocabulary.find(token);
    const bool has_any = std::ranges::any_of(files.single, [](const auto& item) { return item.text < 0; });
    if (found != files.vocabulary.end() && has_any &&
        std::ranges::find(files.single, found->second, &TokenizerFiles::TemplateItem::id) == files.single.end())
      reject("{}: `{}` is {}, which {} does not put around a text: the files contradict each other",
             beside.config().place(), key, token, files.source);
  }
}

/// Refuses what makes another tokenizer of a vocabulary.
void check_class(const Reader& config) {
  if (!config.flag("do_basic_tokenize", true))
    reject("{}: expected `do_basic_tokenize` true, got false", config.place());
  if (const json* const kept = config.find("never_split"); kept != nullptr && kept->is_structured() && !kept->empty())
    reject("{}: expected no `never_split`, which is not supported", config.place());
  static const std::set<std::string_view> word_pieces{"Bert",     "DistilBert", "Electra",  "MobileBert", "SqueezeBert",
                                                      "ConvBert", "RetriBert",  "LayoutLM", "Splinter",   "PreTrained"};
  std::string name = config.text("tokenizer_class", "");
  if (const std::size_t end = name.find("Tokenizer"); end != std::string::npos) name.erase(end);
  if (!name.empty() && !word_pieces.contains(name))
    reject("{}: expected the `tokenizer_class` BertTokenizer or one like it, got {}", config.place(),
           config.text("tokenizer_class", ""));
}

/// The tokens of a vocab.txt by line.
std::vector<std::string> lines_of(const std::string& text, const std::string& source) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string& token = lines.emplace_back(text.substr(begin, end - begin));
    while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
    if (find_broken_utf8(token) != std::string::npos)
      reject("{}:{}: expected a token in UTF-8 on each line: the file is damaged or no vocabulary", source,
             lines.size());
    if (std::ssize(lines) > most_ids) reject("{}: expected {} lines at most, a token on each", source, most_ids);
    begin = end + 1;
  }
  return lines;
}

/// Refuses a vocab.txt whose tokens have other ids than in tokenizer.json.
void check_vocabulary(const TokenizerText& vocabulary, const TokenizerFiles& files) {
  const std::vector<std::string> lines = lines_of(vocabulary.text, vocabulary.source);
  for (std::size_t line = 0; line < lines.size(); ++line) {
    if (lines[line].empty()) continue;
    const auto found = files.vocabulary.find(lines[line]);
    const auto added = std::ranges::find(files.added, lines[line], &TokenizerFiles::AddedToken::content);
    const std::int64_t id = found != files.vocabulary.end() ? found->second
                            : added != files.added.end()    ? added->id
                                                            : -1;
    if (id != static_cast<std::int64_t>(line) && std::ranges::count(lines, lines[line]) == 1)
      reject("{}:{}: {} has the id {}, but {} in {}: the files contradict each other", vocabulary.source, line + 1,
             lines[line], line, id < 0 ? "none" : std::to_string(id), files.source);
  }
}

}  // namespace

TokenizerFiles parse_tokenizer_json(const std::string& text, const std::string& source,
                                    const TokenizerSettings& settings) {
  TokenizerFiles files{.source = source};
  const json value = parse(text, source);
  const Reader root(value, source);
  read_model(root, files);
  read_normalizer(root, files);
  if (step_of(root, "pre_tokenizer", "BertPreTokenizer", "pretokenizers") == nullptr)
    reject("{}: expected a pre_tokenizer of type BertPreTokenizer, as BERT's tokenizers have, got none", source);
  read_processor(root, files);
  read_added(root, files);
  const Beside beside(settings);
  check_flags(beside.config(), files);
  beside.add_to(files);
  check_template(beside, files);
  read_special_names(beside, files);
  if (!settings.vocabulary.text.empty()) check_vocabulary(settings.vocabulary, files);
  return files;
}

TokenizerFiles parse_vocabulary(const std::string& text, const std::string& source, const TokenizerSettings& settings) {
  TokenizerFiles files{.source = source};
  std::vector<std::string> lines = lines_of(text, source);
  for (std::size_t line = 0; line < lines.size(); ++line)
    if (!lines[line].empty()) files.vocabulary[std::move(lines[line])] = static_cast<std::int32_t>(line);
  const Beside beside(settings);
  check_class(beside.config());
  files.lowers = beside.config().flag("do_lower_case", true);
  files.strips_accents = beside.config().flag("strip_accents", files.lowers);
  files.spaces_cjk = beside.config().flag("tokenize_chinese_chars", true);
  files.unknown = beside.special("unk_token", files.unknown);
  read_special_names(beside, files);
  for (const std::string& token : files.special)
    if (const auto found = files.vocabulary.find(token); found != files.vocabulary.end())
      files.added.push_back({.content = token, .id = found->second, .special = true});
  beside.add_to(files);
  const auto id_of = [&](const char* key, const std::string& absent) {
    const std::string token = beside.special(key, absent);
    if (const auto found = files.vocabulary.find(token); found != files.vocabulary.end()) return found->second;
    if (const auto added = std::ranges::find(files.added, token, &TokenizerFiles::AddedToken::content);
        added != files.added.end())
      return added->id;
    reject("{}: expected a vocabulary with the token {}, got {} lines without it", source, token, lines.size());
  };
  const std::int32_t begin = id_of("cls_token", "[CLS]");
  set_bert_template(files, begin, id_of("sep_token", "[SEP]"));
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
  for (const char* const name :
       {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config_sentence_transformers.json"})
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
  const auto beside = [&](const char* name) {
    const fs::path other = file.parent_path() / name;
    if (!fs::exists(other, ignored)) return TokenizerText{.source = other.native()};
    return TokenizerText{read_whole_file(other, "tokenizer configuration", 64 << 20), other.native()};
  };
  TokenizerSettings settings{.config = beside("tokenizer_config.json"),
                             .special = beside("special_tokens_map.json"),
                             .added = beside("added_tokens.json")};
  if (file.extension() != ".json") return parse_vocabulary(text, file.native(), settings);
  settings.vocabulary = beside("vocab.txt");
  return parse_tokenizer_json(text, file.native(), settings);
}

}  // namespace lacuna
