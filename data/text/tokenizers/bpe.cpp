// Byte pair encoding: the characters of a word are merged in the order of a list of pairs.
#include "data/text/tokenizers/steps.h"
#include "data/text/tokenizers/token_model.h"
#include "data/text/utf8.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace lacuna {
namespace {

/// Ranks and results of merges by the ids of a pair. Open addressing.
class MergeTable {
 public:
  struct Merge {
    std::uint64_t pair = 0;  // first · 2³² + second + 1; 0: free
    std::uint32_t rank = 0;
    std::int32_t id = 0;
  };

  void reserve(std::size_t merges) { table_.resize(std::bit_ceil(merges * 2 + 2)); }
  void set(std::int32_t first, std::int32_t second, std::uint32_t rank, std::int32_t id) {
    const std::uint64_t pair = pair_of(first, second);
    table_[place_of(pair)] = {pair, rank, id};
  }
  const Merge* find(std::int32_t first, std::int32_t second) const {
    const std::uint64_t pair = pair_of(first, second);
    const Merge& merge = table_[place_of(pair)];
    return merge.pair == pair ? &merge : nullptr;
  }

 private:
  static std::uint64_t pair_of(std::int32_t first, std::int32_t second) {
    return (static_cast<std::uint64_t>(first) << 32U | static_cast<std::uint32_t>(second)) + 1;
  }
  std::size_t place_of(std::uint64_t pair) const {
    const std::size_t mask = table_.size() - 1;
    std::size_t place = ((pair * 0x9e3779b97f4a7c15U) >> 32U) & mask;
    while (table_[place].pair != 0 && table_[place].pair != pair) place = (place + 1) & mask;
    return place;
  }
  std::vector<Merge> table_;
};

class Bpe final : public TokenModel {
 public:
  explicit Bpe(const JsonReader& object)
      : TokenModel(read_token_ids(object), object.text("unk_token", "")),
        bytes_(vocabulary()),
        unknown_id_(unknown().empty() ? -1 : find(unknown())),
        falls_back_(object.flag("byte_fallback", false)),
        fuses_unknown_(object.flag("fuse_unk", false)),
        ignores_merges_(object.flag("ignore_merges", false)),
        prefix_(object.text("continuing_subword_prefix", "")),
        suffix_(object.text("end_of_word_suffix", "")) {
    if (const auto* const dropout = object.find("dropout");
        dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0))
      reject("{}: dropout of merges is not supported", object.place());
    read_merges(object);
  }

  void tokenize(std::string_view word, std::vector<Token>& out) const override {
    if (ignores_merges_)
      if (const std::int32_t id = find(word); id >= 0)
        return out.push_back({id, 0, static_cast<std::uint32_t>(word.size())});
    thread_local std::vector<Symbol> symbols;
    symbols.clear();
    add_characters(word, symbols);
    merge(symbols);
    for (std::int32_t at = symbols.empty() ? -1 : 0; at >= 0; at = symbols[static_cast<std::size_t>(at)].next) {
      const Symbol& symbol = symbols[static_cast<std::size_t>(at)];
      out.push_back({symbol.id, symbol.begin, symbol.end});
    }
    shrink_scratch(symbols);
  }

 private:
  struct Symbol {
    std::int32_t id;
    std::uint32_t begin, end;   // bytes of the word
    std::int32_t before, next;  // places of the neighbours; -1: none
  };

  void read_merges(const JsonReader& object) {
    const nlohmann::json& list = object.list("merges");
    merges_.reserve(list.size());
    std::uint32_t rank = 0;
    for (const nlohmann::json& each : list) {
      std::string first, second;
      if (each.is_string()) {  // the form of older files
        const auto& text = each.get_ref<const std::string&>();
        if (text.starts_with("#version")) continue;
        const std::size_t space = text.find(' ');
        if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
          first = text.substr(0, space);
          second = text.substr(space + 1);
        }
      } else if (each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string()) {
        first = each[0].get<std::string>();
        second = each[1].get<std::string>();
      }
      if (first.empty() || second.empty())
        reject("{}.merges[{}]: expected a pair of tokens, got {}", object.place(), rank, each.dump());
      const std::string merged = first + (second.starts_with(prefix_) ? second.substr(prefix_.size()) : second);
      const std::int32_t ids[3] = {find(first), find(second), find(merged)};
      for (const std::int32_t id : ids)
        if (id < 0)
          reject("{}.merges[{}]: expected tokens of the vocabulary, got {}, which makes {}", object.place(), rank,
                 each.dump(), merged);
      merges_.set(ids[0], ids[1], rank++, ids[2]);
    }
  }

  /// The id of a character, with the prefix and suffix that its place in the word asks for.
  std::int32_t find_character(std::string_view word, std::size_t begin, std::size_t end) const {
    const std::string_view character = word.substr(begin, end - begin);
    const bool prefixed = begin > 0 && !prefix_.empty(), suffixed = end == word.size() && !suffix_.empty();
    if (!prefixed && !suffixed) return find(character);
    return find((prefixed ? prefix_ : "") + std::string(character) + (suffixed ? suffix_ : ""));
  }

  void add_characters(std::string_view word, std::vector<Symbol>& symbols) const {
    const auto add = [&](std::int32_t id, std::uint32_t begin, std::uint32_t end) {
      const auto place = static_cast<std::int32_t>(symbols.size());
      if (place > 0) symbols.back().next = place;
      symbols.push_back({id, begin, end, place - 1, -1});
    };
    std::optional<std::pair<std::uint32_t, std::uint32_t>> unknown;  // bytes that have no token
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t next = at + std::max<std::size_t>(first_character(word.substr(at)).bytes, 1);
      const auto begin = static_cast<std::uint32_t>(at), end = static_cast<std::uint32_t>(next);
      const std::string_view character = word.substr(at, next - at);
      const std::int32_t id = find_character(word, at, next);
      at = next;
      if (id >= 0) {
        if (unknown) add(unknown_id_, unknown->first, unknown->second);
        unknown.reset();
        add(id, begin, end);
      } else if (falls_back_ && bytes_.cover(character)) {
        for (std::uint32_t i = begin; i < end; ++i) add(bytes_.ids[static_cast<unsigned char>(word[i])], i, i + 1);
      } else if (!this->unknown().empty()) {  // without an unknown token the character is dropped
        if (unknown_id_ < 0) reject_unknown(character);
        if (unknown && !fuses_unknown_) add(unknown_id_, unknown->first, unknown->second);
        unknown = {unknown && fuses_unknown_ ? unknown->first : begin, end};
      }
    }
    if (unknown) add(unknown_id_, unknown->first, unknown->second);
  }

  /// Merges the pair of the lowest rank, the leftmost first, as long as there is one.
  void merge(std::vector<Symbol>& symbols) const {
    thread_local std::vector<std::uint64_t> queue;  // rank · 2³² + place of the first symbol
    queue.clear();
    const auto at = [&](std::int32_t place) -> Symbol& { return symbols[static_cast<std::size_t>(place)]; };
    const auto merge_at = [&](std::int32_t place) -> const MergeTable::Merge* {
      const std::int32_t next = at(place).next;
      return next < 0 ? nullptr : merges_.find(at(place).id, at(next).id);
    };
    const auto key_of = [](const MergeTable::Merge& merge, std::int32_t place) {
      return std::uint64_t{merge.rank} << 32U | static_cast<std::uint32_t>(place);
    };
    for (std::int32_t place = 0; place < std::ssize(symbols); ++place)
      if (const auto* const merge = merge_at(place)) queue.push_back(key_of(*merge, place));
    std::ranges::make_heap(queue, std::greater{});
    const auto push = [&](std::int32_t place) {
      const auto* const merge = place < 0 ? nullptr : merge_at(place);
      if (merge == nullptr) return;
      queue.push_back(key_of(*merge, place));
      std::ranges::push_heap(queue, std::greater{});
    };
    while (!queue.empty()) {
      std::ranges::pop_heap(queue, std::greater{});
      const std::uint64_t top = queue.back();
      queue.pop_back();
      const auto place = static_cast<std::int32_t>(top & 0xffffffffU);
      Symbol& first = at(place);
      if (first.id < 0) continue;  // merged into another
      const auto* const merge = merge_at(place);
      if (merge == nullptr || merge->rank != top >> 32U) continue;  // its pair has changed
      Symbol& second = at(first.next);
      first.id = merge->id;
      first.end = second.end;
      first.next = second.next;
      second.id = -1;
      if (first.next >= 0) at(first.next).before = place;
      push(first.before);
      push(place);
    }
    shrink_scratch(queue);
  }

  MergeTable merges_;
  ByteTokens bytes_;
  std::int32_t unknown_id_;
  bool falls_back_, fuses_unknown_, ignores_merges_;
  std::string prefix_, suffix_;
};

const RegisterStep<TokenModel> bpe("BPE", [](const JsonReader& object) -> std::unique_ptr<const TokenModel> {
  return std::make_unique<Bpe>(object);
});

}  // namespace
}  // namespace lacuna
