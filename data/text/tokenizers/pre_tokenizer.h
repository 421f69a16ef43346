// Steps that cut a text into words, which the model sees one by one.
#pragma once

#include "data/text/tokenizers/normalized_text.h"
#include "data/text/tokenizers/regex.h"

#include <string>

namespace lacuna {

/// A text cut into words.
struct SplitText {
  struct Word {
    std::size_t begin, end;  // bytes of `text`
  };
  NormalizedText text{};
  std::vector<Word> words{};

  std::string_view operator[](const Word& word) const {
    return std::string_view(text.text).substr(word.begin, word.end - word.begin);
  }
};

class PreTokenizer {
 public:
  static constexpr const char *key = "pre_tokenizer", *list_key = "pretokenizers";
  virtual ~PreTokenizer() = default;
  virtual void apply(SplitText& words) const = 0;
};

/// The fate of matches where a word is cut.
enum class Cut : unsigned char { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Cut cut_named(const std::string& name, const std::string& place);

/// Appends the words that remain of a word at `begin` whose parts are `matches`.
void cut_word(const Matches& matches, Cut cut, std::size_t begin, std::vector<SplitText::Word>& out);

/// Cuts every word; `find(text, matches)` appends its parts in order.
template <class Find>
void cut_words(SplitText& words, Cut cut, Find&& find) {
  std::vector<SplitText::Word> out;
  Matches matches;
  for (const SplitText::Word& word : words.words) {
    matches.clear();
    find(words[word], matches);
    cut_word(matches, cut, word.begin, out);
  }
  words.words = std::move(out);
}

/// Rewrites every word; `write(word, out)` appends its new text.
template <class Write>
void rewrite_words(SplitText& words, Write&& write) {
  NormalizedText out;
  out.reserve(words.text.text.size() * 9 / 8 + 8);
  for (SplitText::Word& word : words.words) {
    const std::size_t begin = out.text.size();
    write(word, out);
    word = {begin, out.text.size()};
  }
  words.text = std::move(out);
}

/// Appends a part for each character that `is_match` holds for, and parts between them.
template <class IsMatch>
void find_characters(std::string_view text, Matches& matches, IsMatch&& is_match) {
  std::size_t last = 0;
  each_character(text, [&](std::int32_t code, std::size_t begin, std::size_t end) {
    if (!is_match(code)) return;
    if (last < begin) matches.push_back({last, begin, false});
    matches.push_back({begin, end, true});
    last = end;
  });
  if (last < text.size()) matches.push_back({last, text.size(), false});
}

}  // namespace lacuna
