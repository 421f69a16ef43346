#include "data/text/tokenizer.h"

#include "core/error.h"
#include "data/text/utf8.h"

#include <algorithm>
#include <array>
#include <set>

namespace lacuna {
namespace {

/// A normalized text. `sources` maps each of its bytes to the start of its source character.
struct Normalized {
  std::string text;
  std::vector<std::uint32_t> sources;

  void add(char byte, std::uint32_t source) {
    text.push_back(byte);
    sources.push_back(source);
  }
  void add(std::string_view bytes, std::uint32_t source) {
    for (const char byte : bytes) add(byte, source);
  }
};

[[noreturn]] void reject_bytes(std::string_view text, std::size_t at) {
  reject("expected text in UTF-8, got byte 0x{:02x} at position {} of it", static_cast<unsigned char>(text[at]),
         at + 1);
}

/// Whether a letter or digit is adjacent to a token that matches only as a whole word.
bool joins_word(std::string_view text, std::size_t begin, std::size_t end) {
  const auto is_word = [](char byte) {
    const auto b = static_cast<unsigned char>(byte);
    return b >= 0x80 || (b >= '0' && b <= '9') || (b >= 'A' && b <= 'Z') || (b >= 'a' && b <= 'z') || b == '_';
  };
  return (begin > 0 && is_word(text[begin - 1])) || (end < text.size() && is_word(text[end]));
}

}  // namespace

/// The tokenization of one text.
class Tokenizer::Words {
 public:
  Words(const Tokenizer& tokenizer, std::vector<Piece>& out)
      : tokenizer_(tokenizer), files_(tokenizer.files_), out_(out) {}

  /// Splits the raw text at added tokens and tokenizes the parts between them.
  void add_raw(std::string_view text) {
    std::size_t begin = 0;
    each_added(tokenizer_.added_raw_, text, [&](std::size_t at, std::size_t end, std::int32_t id) {
      add_between(text, begin, at);
      out_.push_back({id, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
      begin = end;
    });
    add_between(text, begin, text.size());
  }

  std::string normalized(std::string_view text) {
    normalize(text, 0, text.size());
    return normalized_.text;
  }

 private:
  /// Calls `f(begin, end, id)` for each added token in the text.
  template <class F>
  void each_added(const Trie& added, std::string_view text, F&& f) const {
    if (added.empty()) return;
    for (std::size_t at = 0; at < text.size();) {
      const auto [number, length] = added.longest(text.substr(at));
      if (length > 0) {
        const TokenizerFiles::AddedToken& token = files_.added[static_cast<std::size_t>(number)];
        if (!token.single_word || !joins_word(text, at, at + length)) {
          f(at, at + length, token.id);
          at += length;
          continue;
        }
      }
      ++at;
    }
  }

  void add_between(std::string_view text, std::size_t begin, std::size_t end) {
    if (begin == end) return;
    normalized_.text.clear();
    normalized_.sources.clear();
    normalize(text, begin, end);
    normalized_.sources.push_back(static_cast<std::uint32_t>(end));
    std::size_t from = 0;
    each_added(tokenizer_.added_normalized_, normalized_.text, [&](std::size_t at, std::size_t to, std::int32_t id) {
      split(from, at);
      out_.push_back({id, normalized_.sources[at], normalized_.sources[to]});
      from = to;
    });
    split(from, normalized_.text.size());
  }

  void normalize(std::string_view text, std::size_t begin, std::size_t end) {
    normalized_.text.reserve(end - begin);
    normalized_.sources.reserve(end - begin + 1);
    for (std::size_t at = begin; at < end;) {
      const auto source = static_cast<std::uint32_t>(at);
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte < 0x80) {
        ++at;
        normalize_ascii(byte, source);
        continue;
      }
      const Character character = first_character(text.substr(at, end - at));
      if (character.bytes == 0) reject_bytes(text, at);
      if (files_.normalizes)
        normalize(character.code, source, static_cast<std::uint32_t>(at + character.bytes));
      else
        normalized_.add(text.substr(at, character.bytes), source);
      at += character.bytes;
    }
  }
  void normalize_ascii(unsigned char byte, std::uint32_t source) {
    if (files_.normalizes) {
      if (files_.cleans) {
        if (is_control(byte)) return;
        if (byte < ' ') byte = ' ';
      }
      if (files_.lowers && byte >= 'A' && byte <= 'Z') byte = static_cast<unsigned char>(byte + 32);
    }
    normalized_.add(static_cast<char>(byte), source);
  }
  void normalize(std::int32_t code, std::uint32_t source, std::uint32_t end) {
    if (files_.cleans) {
      if (code == 0xfffd || is_control(code)) return;
      if (is_whitespace(code)) return normalized_.add(' ', source);
    }
    const bool alone = files_.spaces_cjk && is_cjk(code);
    if (alone) normalized_.add(' ', source);
    std::int32_t parts[longest_decomposition] = {code};
    const int count = files_.strips_accents ? decompose(code, parts) : 1;
    for (int i = 0; i < count; ++i) {
      if (files_.strips_accents && is_nonspacing_mark(parts[i])) continue;
      std::int32_t cased[2] = {parts[i]};
      const int letters = files_.lowers ? lower_case(parts[i], cased) : 1;
      for (int letter = 0; letter < letters; ++letter) {
        char bytes[4];
        normalized_.add(std::string_view(bytes, static_cast<std::size_t>(write_utf8(cased[letter], bytes))), source);
      }
    }
    if (alone) normalized_.add(' ', end);
  }

  /// Splits the normalized bytes [begin, end) into words and punctuation.
  void split(std::size_t begin, std::size_t end) {
    const std::string_view text(normalized_.text);
    std::size_t word = begin;
    std::int64_t characters = 0;
    const auto end_word = [&](std::size_t at) {
      if (characters > 0) add_word(word, at, characters);
      characters = 0;
    };
    for (std::size_t at = begin; at < end;) {
      const Character character = first_character(text.substr(at, end - at));
      const std::size_t next = at + character.bytes;
      const bool space = is_whitespace(character.code), alone = !space && is_punctuation(character.code);
      if (space || alone) {
        end_word(at);
        if (alone) add_word(at, next, 1);
        word = next;
      } else {
        ++characters;
      }
      at = next;
    }
    end_word(end);
  }

  /// Matches the longest pieces greedily from the left. A word that they do not cover becomes one unknown token.
  void add_word(std::size_t begin, std::size_t end, std::int64_t characters) {
    const std::vector<std::uint32_t>& sources = normalized_.sources;
    const std::string_view text(normalized_.text);
    const std::size_t pieces = out_.size();
    if (characters <= files_.longest_word) {
      std::size_t at = begin;
      while (at < end) {
        const Trie& trie = at == begin ? tokenizer_.starts_ : tokenizer_.continuations_;
        const auto [id, length] = trie.longest(text.substr(at, end - at));
        if (length == 0) break;
        out_.push_back({id, sources[at], sources[at + length]});
        at += length;
      }
      if (at == end) return;
    }
    out_.resize(pieces);
    out_.push_back({tokenizer_.unknown_, sources[begin], sources[end]});
  }

  const Tokenizer& tokenizer_;
  const TokenizerFiles& files_;
  std::vector<Piece>& out_;
  Normalized normalized_;
};

Tokenizer::Tokenizer(TokenizerFiles files) : files_(std::move(files)) {
  for (const auto& [token, id] : files_.vocabulary) {
    starts_.insert(token, id);
    if (token.starts_with(files_.prefix))
      continuations_.insert(std::string_view(token).substr(files_.prefix.size()), id);
  }
  for (std::size_t i = 0; i < files_.added.size(); ++i) {
    const TokenizerFiles::AddedToken& token = files_.added[i];
    std::vector<Piece> none;
    const std::string content = token.normalized ? Words(*this, none).normalized(token.content) : token.content;
    Trie& trie = token.normalized ? added_normalized_ : added_raw_;
    // If several tokens normalize to the same text, the first counts.
    if (!content.empty() && trie.longest(content).second < content.size())
      trie.insert(content, static_cast<std::int32_t>(i));
  }
  unknown_ = id_of(files_.unknown, "words that are not in the vocabulary");
  vocabulary_ = describe();
}

Vocabulary Tokenizer::describe() const {
  std::set<std::int64_t> special{unknown_};
  for (const auto* const items : {&files_.single, &files_.pair})
    for (const TokenizerFiles::TemplateItem& item : *items)
      if (item.text < 0) special.insert(item.id);
  for (const std::string& name : files_.special)
    if (const auto id = find(name)) special.insert(*id);
  Vocabulary vocabulary{.mask = find(files_.mask).value_or(-1)};
  if (vocabulary.mask >= 0) special.insert(vocabulary.mask);
  for (const auto& [token, id] : files_.vocabulary) vocabulary.size = std::max(vocabulary.size, std::int64_t{id} + 1);
  for (const TokenizerFiles::AddedToken& token : files_.added) {
    vocabulary.size = std::max(vocabulary.size, std::int64_t{token.id} + 1);
    if (token.special) special.insert(token.id);
  }
  vocabulary.special = {special.begin(), special.end()};
  return vocabulary;
}

std::optional<std::int32_t> Tokenizer::find(std::string_view token) const {
  if (const auto found = files_.vocabulary.find(token); found != files_.vocabulary.end()) return found->second;
  const auto added = std::ranges::find(files_.added, token, &TokenizerFiles::AddedToken::content);
  if (added != files_.added.end()) return added->id;
  return std::nullopt;
}

std::int32_t Tokenizer::id_of(std::string_view token, std::string_view wanted_for) const {
  if (const auto id = find(token)) return *id;
  reject("{}: expected a vocabulary with the token {} ({}), got {} tokens without it", files_.source, token, wanted_for,
         files_.vocabulary.size());
}

std::vector<std::string> Tokenizer::tokens() const {
  std::vector<std::string> tokens(static_cast<std::size_t>(vocabulary_.size));
  for (const auto& [token, id] : files_.vocabulary) tokens[static_cast<std::size_t>(id)] = token;
  for (const TokenizerFiles::AddedToken& token : files_.added)
    tokens[static_cast<std::size_t>(token.id)] = token.content;
  return tokens;
}

std::int64_t Tokenizer::special_tokens(bool pair) const {
  return std::ranges::count_if(pair ? files_.pair : files_.single, [](const auto& item) { return item.text < 0; });
}

std::vector<Tokenizer::Piece> Tokenizer::pieces(std::string_view text) const {
  constexpr std::size_t most = 1U << 30U;
  if (text.size() > most) reject("a text of {} bytes is too long: {} at most", text.size(), most);
  std::vector<Piece> out;
  out.reserve(text.size() / 4 + 2);
  Words(*this, out).add_raw(text);
  return out;
}

Tokenizer::Encoding Tokenizer::fill(const std::vector<TokenizerFiles::TemplateItem>& items,
                                    const std::vector<Piece>* texts[2], const std::int64_t (&kept)[2]) const {
  Encoding encoding;
  const auto add = [&](std::int32_t id, std::int64_t type, std::int32_t source) {
    encoding.tokens.push_back(id);
    encoding.types.push_back(static_cast<std::int8_t>(type));
    encoding.sources.push_back(source);
  };
  for (const TokenizerFiles::TemplateItem& item : items) {
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
  return fill(files_.single, texts, {std::min(std::ssize(text), budget_of(max_length, special_tokens(false))), 0});
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
  return fill(files_.pair, texts, kept);
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
