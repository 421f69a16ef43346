#include "data/text/tokenizer.h"

#include "core/error.h"
#include "data/text/tokenizers/decoder.h"
#include "data/text/tokenizers/normalizer.h"
#include "data/text/tokenizers/pre_tokenizer.h"
#include "data/text/tokenizers/word_cache.h"

#include <algorithm>
#include <atomic>
#include <set>

namespace lacuna {
namespace {

[[noreturn]] void reject_bytes(std::string_view text, std::size_t at) {
  reject("expected text in UTF-8, got byte 0x{:02x} at position {} of it", static_cast<unsigned char>(text[at]),
         at + 1);
}

/// The bytes [begin, end) of a text. All bytes of a character have its span.
NormalizedText source_text(std::string_view text, std::size_t begin, std::size_t end) {
  NormalizedText out{.text = std::string(text.substr(begin, end - begin))};
  out.spans.resize(end - begin);
  each_character(out.text, [&](std::int32_t, std::size_t first, std::size_t last) {
    const SourceSpan span{static_cast<std::uint32_t>(begin + first), static_cast<std::uint32_t>(begin + last)};
    for (std::size_t at = first; at < last; ++at) out.spans[at] = span;
  });
  return out;
}

/// White space at the ends of a text in characters, of which `Ġ` is one.
template <class Blanks>
Blanks blanks_of(std::string_view text) {
  Blanks blanks;
  each_character(text, [&](std::int32_t code, std::size_t, std::size_t) {
    constexpr std::int32_t byte_level_space = 0x120;
    const bool blank = code == byte_level_space || is_whitespace(code);
    blanks.is_all = blanks.is_all && blank;
    blanks.before += blanks.is_all ? 1 : 0;
    blanks.after = blank ? blanks.after + 1 : 0;
  });
  return blanks;
}

std::uint64_t next_tokenizer() {
  static std::atomic<std::uint64_t> count{0};
  return ++count;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::move(parts)),
      added_raw_(parts_.added, false, [](const std::string& content) { return content; }),
      added_normalized_(parts_.added, true,
                        [this](const std::string& content) {
                          NormalizedText text = source_text(content, 0, content.size());
                          normalize(text);
                          return text.text;
                        }),
      number_(next_tokenizer()) {
  const TokenModel& model = *parts_.model;
  if (model.needs_unknown() && model.find(model.unknown()) < 0)
    reject(
        "{}: expected a vocabulary with the token {} (words that are not in the vocabulary), got {} tokens without it",
        parts_.source, model.unknown(), model.vocabulary().size());
  vocabulary_ = describe();
  const TokenIds& ids = model.vocabulary();
  by_id_.reserve(ids.size());
  for (const auto& [token, id] : ids) by_id_.emplace(id, token);
  for (const AddedToken& token : parts_.added) {
    by_id_.insert_or_assign(token.id, token.content);
    if (token.special) special_ids_.insert(token.id);
  }
  if (parts_.processor.trims_spans)
    for (const auto& [token, id] : ids)
      if (const auto blanks = blanks_of<Blanks>(token); blanks.before + blanks.after > 0) blanks_.emplace(id, blanks);
}

Vocabulary Tokenizer::describe() const {
  std::set<std::int64_t> special;
  if (const std::int32_t unknown = parts_.model->find(parts_.model->unknown()); unknown >= 0) special.insert(unknown);
  for (const auto* const items : {&parts_.processor.single, &parts_.processor.pair})
    for (const TemplateItem& item : *items)
      if (item.text < 0) special.insert(item.id);
  for (const std::string& name : parts_.special)
    if (const auto id = find(name)) special.insert(*id);
  Vocabulary vocabulary{.types = 1, .mask = find(parts_.mask).value_or(-1)};
  for (const TemplateItem& item : parts_.processor.pair) vocabulary.types = std::max(vocabulary.types, item.type + 1);
  if (vocabulary.mask >= 0) special.insert(vocabulary.mask);
  for (const auto& [token, id] : parts_.model->vocabulary())
    vocabulary.size = std::max(vocabulary.size, std::int64_t{id} + 1);
  for (const AddedToken& token : parts_.added) {
    vocabulary.size = std::max(vocabulary.size, std::int64_t{token.id} + 1);
    if (token.special) special.insert(token.id);
  }
  vocabulary.special = {special.begin(), special.end()};
  return vocabulary;
}

std::optional<std::int32_t> Tokenizer::find(std::string_view token) const {
  const std::int32_t id = parts_.find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::int32_t Tokenizer::id_of(std::string_view token, std::string_view wanted_for) const {
  if (const auto id = find(token)) return *id;
  reject("{}: expected a vocabulary with the token {} ({}), got {} tokens without it", parts_.source, token, wanted_for,
         parts_.model->vocabulary().size());
}

std::vector<std::string> Tokenizer::tokens() const {
  std::vector<std::string> tokens(static_cast<std::size_t>(vocabulary_.size));
  for (const auto& [id, token] : by_id_) tokens[static_cast<std::size_t>(id)] = token;
  return tokens;
}

std::int64_t Tokenizer::special_tokens(bool pair) const {
  return std::ranges::count_if(pair ? parts_.processor.pair : parts_.processor.single,
                               [](const auto& item) { return item.text < 0; });
}

void Tokenizer::normalize(NormalizedText& text) const {
  for (const auto& step : parts_.normalizers) {
    NormalizedText out;
    step->apply(text, out);
    text = std::move(out);
  }
}

std::vector<Tokenizer::Piece> Tokenizer::pieces(std::string_view text) const {
  constexpr std::size_t most = 1U << 30U;
  if (text.size() > most) reject("a text of {} bytes is too long: {} at most", text.size(), most);
  if (const std::size_t broken = find_broken_utf8(text); broken != std::string_view::npos) reject_bytes(text, broken);
  std::vector<Piece> out;
  out.reserve(text.size() / 4 + 2);
  added_raw_.cut(text, [&](std::size_t begin, std::size_t end, std::int32_t token) {
    if (token >= 0)
      return add_piece(token, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end),
                       blanks_of<Blanks>(text.substr(begin, end - begin)), out);
    NormalizedText part = source_text(text, begin, end);
    normalize(part);
    if (added_normalized_.empty()) return add_text(std::move(part), out);
    added_normalized_.cut(part.text, [&](std::size_t first, std::size_t last, std::int32_t id) {
      if (id >= 0) {
        const SourceSpan source = part.source(first, last);
        return add_piece(id, source.begin, source.end, blanks_of<Blanks>(part.text.substr(first, last - first)), out);
      }
      NormalizedText between;
      between.add(part, first, last);
      add_text(std::move(between), out);
    });
  });
  return out;
}

void Tokenizer::add_text(NormalizedText text, std::vector<Piece>& out) const {
  if (text.text.empty()) return;
  SplitText words{.text = std::move(text)};
  words.words.push_back({0, words.text.text.size()});
  for (const auto& step : parts_.pre_tokenizers) step->apply(words);
  WordCache& cache = WordCache::of_thread(number_);
  std::vector<TokenModel::Token> tokens;
  for (const SplitText::Word& word : words.words) {
    tokens.clear();
    cache.tokenize(*parts_.model, words[word], tokens);
    for (const TokenModel::Token& token : tokens) {
      const SourceSpan source = words.text.source(word.begin + token.begin, word.begin + token.end);
      const auto blanks = blanks_.find(token.id);
      add_piece(token.id, source.begin, source.end, blanks == blanks_.end() ? Blanks{.is_all = false} : blanks->second,
                out);
    }
  }
}

void Tokenizer::add_piece(std::int32_t id, std::uint32_t begin, std::uint32_t end, Blanks blanks,
                          std::vector<Piece>& out) const {
  if (parts_.processor.trims_spans) {
    if (blanks.before == 1 && parts_.processor.keeps_added_space && (out.empty() || begin == 0)) blanks.before = 0;
    begin = std::min(begin + blanks.before, end);
    end = blanks.is_all ? begin : std::max(end - std::min(blanks.after, end), begin);
  }
  out.push_back({id, begin, end});
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int32_t id : ids)
    if (const auto found = by_id_.find(id); found != by_id_.end() && !(skip_special && special_ids_.contains(id)))
      tokens.emplace_back(found->second);
  for (const auto& step : parts_.decoders) step->apply(tokens);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && parts_.decoders.empty()) text += ' ';
    text += tokens[i];
  }
  return text;
}

bool Tokenizer::has_special(std::string_view text) const {
  bool found = false;
  for (const AddedTokens* const tokens : {&added_raw_, &added_normalized_})
    tokens->cut(text, [&](std::size_t, std::size_t, std::int32_t id) { found = found || special_ids_.contains(id); });
  return found;
}

std::string Tokenizer::remark() const {
  if (!parts_.config.contradiction.empty()) return parts_.config.contradiction;
  static constexpr std::string_view rebuilt[] = {"Llama", "T5", "GPT2"};
  std::string_view name = parts_.config.class_name;
  name = name.substr(0, name.find("Tokenizer"));
  if (std::ranges::find(rebuilt, name) == std::end(rebuilt)) return {};
  return fmt::format(
      "these are the ids of {} as transformers 4 reads it. transformers 5 makes {} anew from its "
      "vocabulary: texts that begin with white space, or have rare digits, may get other ids",
      parts_.source, parts_.config.class_name);
}

Tokenizer::Encoding Tokenizer::fill(const std::vector<TemplateItem>& items, const std::vector<Piece>* texts[2],
                                    const std::int64_t (&kept)[2]) const {
  Encoding encoding;
  const auto add = [&](std::int32_t id, std::int64_t type, std::int32_t source) {
    encoding.tokens.push_back(id);
    encoding.types.push_back(static_cast<std::int8_t>(type));
    encoding.sources.push_back(source);
  };
  for (const TemplateItem& item : items) {
    if (item.text < 0) {
      add(item.id, item.type, -1);
      continue;
    }
    for (std::int64_t i = 0; i < kept[item.text]; ++i)
      add((*texts[item.text])[static_cast<std::size_t>(i)].id, item.type, static_cast<std::int32_t>(2 * i + item.text));
  }
  return encoding;
}

namespace {

/// Number of tokens left for text, after the special tokens.
std::int64_t budget_of(std::int64_t max_length, std::int64_t special) {
  constexpr std::int64_t unlimited = std::int64_t{1} << 40;
  if (max_length == 0) return unlimited;
  if (max_length < special)
    reject("expected a length of {} tokens at least, the special ones, got {}", special, max_length);
  return max_length - special;
}

}  // namespace

Tokenizer::Encoding Tokenizer::join(const std::vector<Piece>& text, std::int64_t max_length) const {
  const std::vector<Piece>* texts[2] = {&text, nullptr};
  return fill(parts_.processor.single, texts,
              {std::min(std::ssize(text), budget_of(max_length, special_tokens(false))), 0});
}

Tokenizer::Encoding Tokenizer::join(const std::vector<Piece>& text, const std::vector<Piece>& pair,
                                    std::int64_t max_length, Truncation truncation) const {
  const std::vector<Piece>* texts[2] = {&text, &pair};
  const std::int64_t budget = budget_of(max_length, special_tokens(true));
  std::int64_t kept[2] = {std::ssize(text), std::ssize(pair)};
  if (kept[0] + kept[1] > budget) {
    if (truncation == Truncation::longest_first) {
      std::tie(kept[0], kept[1]) = longest_first(kept[0], kept[1], budget);
    } else {
      const int cut = truncation == Truncation::only_first ? 0 : 1;
      if (kept[1 - cut] > budget)
        reject("the text that is not cut has {} tokens, of {} that are left beside the special ones", kept[1 - cut],
               budget);
      kept[cut] = budget - kept[1 - cut];
    }
  }
  return fill(parts_.processor.pair, texts, kept);
}

std::pair<std::int64_t, std::int64_t> longest_first(std::int64_t first, std::int64_t second, std::int64_t budget) {
  if (first + second <= budget) return {first, second};
  const bool swapped = first > second;
  std::int64_t a = std::min(first, second), b = std::max(first, second);
  b = a > budget ? a : std::max(a, budget - a);
  if (a + b > budget) {
    a = budget / 2;
    b = a + budget % 2;
  }
  return swapped ? std::pair{b, a} : std::pair{a, b};
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  return std::make_shared<const Tokenizer>(read_tokenizer_files(path));
}

}  // namespace lacuna
