// tokenizer.json, the file of the tokenizers library.
#include "data/text/tokenizers/bert_normalizer.h"
#include "data/text/tokenizers/decoder.h"
#include "data/text/tokenizers/metaspace.h"
#include "data/text/tokenizers/normalizer.h"
#include "data/text/tokenizers/parts.h"
#include "data/text/tokenizers/pre_tokenizer.h"
#include "data/text/tokenizers/settings.h"
#include "data/text/tokenizers/steps.h"
#include "data/text/tokenizers/token_model.h"
#include "data/text/tokenizers/vocab_txt.h"

#include <optional>

namespace lacuna {
namespace {

using nlohmann::json;

std::unique_ptr<const TokenModel> read_model(const JsonReader& root) {
  const JsonReader model = root.inner("model");
  const json* const vocabulary = model.find("vocab");
  const bool scored = vocabulary != nullptr && vocabulary->is_array();
  const char* const usual = model.find("merges") != nullptr ? "BPE" : scored ? "Unigram" : "WordPiece";
  return read_step<TokenModel>(model, model.text("type", usual));
}

void read_added(const JsonReader& root, TokenizerParts& parts) {
  if (root.find("added_tokens") == nullptr) return;
  const std::string place = root.place() + ".added_tokens";
  for (const json& each : root.list("added_tokens")) {
    const JsonReader token(each, place);
    AddedToken added{.content = token.text("content", ""),
                     .id = checked_token_id(token.number("id", -1), place),
                     .normalized = token.flag("normalized", false),
                     .single_word = token.flag("single_word", false),
                     .strips_left = token.flag("lstrip", false),
                     .strips_right = token.flag("rstrip", false),
                     .special = token.flag("special", false)};
    if (added.content.empty()) reject("{}: expected tokens with a `content`", place);
    parts.added.push_back(std::move(added));
  }
}

/// Refuses a flag of tokenizer_config.json that BERT's normalizer contradicts: transformers follows the one, the
/// tokenizers library the other.
void check_flags(const JsonReader& config, const TokenizerParts& parts) {
  const std::string& unknown = parts.model->unknown();
  if (const std::string token = token_in(config, "unk_token", unknown); token != unknown)
    reject("{}: `unk_token` is {}, but {} in {}: the files contradict each other", config.place(), token, unknown,
           parts.source);
  BertFlags flags{.cleans = false, .spaces_cjk = false, .strips_accents = false, .lowers = false};
  for (const auto& step : parts.normalizers) {
    const auto* const bert = dynamic_cast<const BertNormalizer*>(step.get());
    if (bert == nullptr) return;
    flags = bert->flags();
  }
  for (const auto& [key, value] : {std::pair{"do_lower_case", flags.lowers},
                                   {"strip_accents", flags.strips_accents},
                                   {"tokenize_chinese_chars", flags.spaces_cjk}})
    if (config.flag(key, value) != value)
      reject("{}: `{}` is {}, but {} in {}: the files contradict each other", config.place(), key, !value, value,
             parts.source);
}

/// Whether words at the beginning of a text get a space in front; nothing: no step says.
std::optional<bool> adds_space(const JsonReader& root) {
  std::optional<bool> adds;
  each_step(root, Normalizer::key, Normalizer::list_key, [&](const JsonReader&, const std::string& type) {
    if (type == "Prepend") adds = true;
  });
  each_step(root, PreTokenizer::key, PreTokenizer::list_key, [&](const JsonReader& step, const std::string& type) {
    if (type == "ByteLevel") adds = adds.value_or(false) || step.flag("add_prefix_space", true);
    if (type == "Metaspace") adds = read_metaspace(step).scheme != Metaspace::never;
  });
  return adds;
}

void add_contradiction(TokenizerParts& parts, const std::string& said) {
  std::string& all = parts.config.contradiction;
  all += (all.empty() ? "" : "; ") + said;
}

/// Says where tokenizer_config.json has another `add_prefix_space`: classes of their own follow it, and that for any
/// tokenizer follows tokenizer.json.
void compare_space(const JsonReader& config, const JsonReader& root, TokenizerParts& parts) {
  const std::string& name = parts.config.class_name;
  const std::optional<bool> adds = adds_space(root);
  if (!adds || name.empty() || name.starts_with("PreTrained") || name == "TokenizersBackend") return;
  if (config.flag("add_prefix_space", *adds) == *adds) return;
  add_contradiction(
      parts,
      fmt::format(
          "{}: `add_prefix_space` is {}, as {} of transformers takes it, but {} puts {} space before a text, and is "
          "followed",
          config.place(), !*adds, name, parts.source, *adds ? "a" : "no"));
}

/// Says where tokenizer_config.json and the template differ in whether bos_token and eos_token stand around a text:
/// transformers 4 follows the one in some classes, transformers 5 the other in all.
void compare_template(const JsonReader& config, TokenizerParts& parts) {
  const std::vector<TemplateItem>& now = parts.processor.single;
  const auto compare = [&](const char* key, const std::string& token, bool begins) {
    const std::int32_t id = token.empty() ? -1 : parts.find(token);
    const bool has = id >= 0 && !now.empty() && (begins ? now.front() : now.back()).text < 0 &&
                     (begins ? now.front() : now.back()).id == id;
    if (config.flag(key, has) == has) return;
    add_contradiction(
        parts,
        fmt::format("{}: `{}` is {}, but {} puts {} token {} a text, and is followed, as by transformers 5",
                    config.place(), key, !has, parts.source, has ? "this" : "no such", begins ? "before" : "behind"));
  };
  compare("add_bos_token", parts.config.bos, true);
  compare("add_eos_token", parts.config.eos, false);
}

}  // namespace

TokenizerParts parse_tokenizer_json(const std::string& text, const std::string& source,
                                    const TokenizerSettings& settings) {
  TokenizerParts parts;
  parts.source = source;
  const json value = parse_json(text, source);
  const JsonReader root(value, source);
  parts.model = read_model(root);
  parts.normalizers = read_steps<Normalizer>(root);
  parts.pre_tokenizers = read_steps<PreTokenizer>(root);
  parts.processor = read_post_processor(root);
  parts.decoders = read_steps<DecodingStep>(root);
  read_added(root, parts);
  const SettingsReader beside(settings);
  if (is_word_piece(*parts.model)) check_flags(beside.config(), parts);
  beside.add_tokens(parts);
  beside.add_config(parts);
  compare_space(beside.config(), root, parts);
  compare_template(beside.config(), parts);
  beside.check_template(parts);
  if (!settings.vocabulary.text.empty()) check_vocabulary(settings.vocabulary, parts);
  return parts;
}

}  // namespace lacuna
