#include "data/text/tokenizers/vocab_txt.h"

#include "data/text/tokenizers/bert_normalizer.h"
#include "data/text/tokenizers/pre_tokenizer.h"
#include "data/text/tokenizers/settings.h"
#include "data/text/tokenizers/steps.h"
#include "data/text/tokenizers/word_piece.h"
#include "data/text/tokenizers/word_piece_decoder.h"

#include <algorithm>

namespace lacuna {
namespace {

/// Refuses what makes another tokenizer of a vocabulary.
void check_class(const JsonReader& config) {
  if (!config.flag("do_basic_tokenize", true))
    reject("{}: expected `do_basic_tokenize` true, got false", config.place());
  if (const nlohmann::json* const kept = config.find("never_split");
      kept != nullptr && kept->is_structured() && !kept->empty())
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
    if (std::ssize(lines) > most_token_ids)
      reject("{}: expected {} lines at most, a token on each", source, most_token_ids);
    begin = end + 1;
  }
  return lines;
}

}  // namespace

bool is_word_piece(const TokenModel& model) { return dynamic_cast<const WordPiece*>(&model) != nullptr; }

void check_vocabulary(const TokenizerText& vocabulary, const TokenizerParts& parts) {
  const std::vector<std::string> lines = lines_of(vocabulary.text, vocabulary.source);
  for (std::size_t line = 0; line < lines.size(); ++line) {
    if (lines[line].empty()) continue;
    const std::int32_t id = parts.find(lines[line]);
    if (id != static_cast<std::int64_t>(line) && std::ranges::count(lines, lines[line]) == 1)
      reject("{}:{}: {} has the id {}, but {} in {}: the files contradict each other", vocabulary.source, line + 1,
             lines[line], line, id < 0 ? "none" : std::to_string(id), parts.source);
  }
}

TokenizerParts parse_vocabulary(const std::string& text, const std::string& source, const TokenizerSettings& settings) {
  TokenizerParts parts;
  parts.source = source;
  TokenIds ids;
  std::vector<std::string> lines = lines_of(text, source);
  for (std::size_t line = 0; line < lines.size(); ++line)
    if (!lines[line].empty()) ids[std::move(lines[line])] = static_cast<std::int32_t>(line);
  const SettingsReader beside(settings);
  const JsonReader& config = beside.config();
  check_class(config);
  const bool lowers = config.flag("do_lower_case", true);
  parts.normalizers.push_back(
      std::make_unique<BertNormalizer>(BertFlags{.spaces_cjk = config.flag("tokenize_chinese_chars", true),
                                                 .strips_accents = config.flag("strip_accents", lowers),
                                                 .lowers = lowers}));
  const nlohmann::json none = nlohmann::json::object();
  parts.pre_tokenizers.push_back(read_step<PreTokenizer>(JsonReader(none, source), "BertPreTokenizer"));
  WordPiece::Options options;
  options.unknown = beside.special("unk_token", options.unknown);
  parts.decoders.push_back(std::make_unique<WordPieceDecoder>(options.prefix, true));
  parts.model = std::make_unique<WordPiece>(std::move(ids), std::move(options));
  beside.add_config(parts);
  for (const std::string& token : parts.special)
    if (const std::int32_t id = parts.model->find(token); id >= 0)
      parts.added.push_back({.content = token, .id = id, .special = true});
  beside.add_tokens(parts);
  const auto id_of = [&](const char* key, const std::string& absent) {
    const std::string token = beside.special(key, absent);
    const std::int32_t id = parts.find(token);
    if (id < 0)
      reject("{}: expected a vocabulary with the token {}, got {} lines without it", source, token, lines.size());
    return id;
  };
  const std::int32_t begin = id_of("cls_token", "[CLS]");
  parts.processor = bert_processor(begin, id_of("sep_token", "[SEP]"));
  return parts;
}

}  // namespace lacuna
