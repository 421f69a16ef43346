#include "data/text/tokenizers/metaspace.h"
#include "data/text/tokenizers/pattern.h"
#include "data/text/tokenizers/pre_tokenizer.h"
#include "data/text/tokenizers/steps.h"
#include "data/text/tokenizers/unicode_versions.h"

#include <utility>

namespace lacuna {

Cut cut_named(const std::string& name, const std::string& place) {
  for (const auto& [known, cut] : {std::pair{"Removed", Cut::removed},
                                   {"Isolated", Cut::isolated},
                                   {"MergedWithPrevious", Cut::merged_with_previous},
                                   {"MergedWithNext", Cut::merged_with_next},
                                   {"Contiguous", Cut::contiguous}})
    if (name == known) return cut;
  reject("{}: the behavior {} is not supported", place, name);
}

void cut_word(const Matches& matches, Cut cut, std::size_t begin, std::vector<SplitText::Word>& out) {
  const auto add = [&](const Match& part) {
    if (part.begin < part.end) out.push_back({begin + part.begin, begin + part.end});
  };
  if (cut == Cut::isolated || cut == Cut::removed) {
    for (const Match& part : matches)
      if (!part.is_match || cut == Cut::isolated) add(part);
    return;
  }
  Match open{0, 0, false};  // the word being made
  bool after_match = false;
  for (const Match& part : matches) {
    const bool joins = cut == Cut::contiguous             ? part.is_match == after_match
                       : cut == Cut::merged_with_previous ? part.is_match && !after_match
                                                          : after_match && !part.is_match;
    if (!joins) {
      add(open);
      open.begin = part.begin;
    }
    open.end = part.end;
    after_match = part.is_match;
  }
  add(open);
}

namespace {

/// Cuts at the characters for which `is_match` holds.
class CharacterCut final : public PreTokenizer {
 public:
  CharacterCut(Cut cut, bool (*is_match)(std::int32_t)) : cut_(cut), is_match_(is_match) {}

 private:
  void apply(SplitText& words) const override {
    cut_words(words, cut_, [&](std::string_view text, Matches& matches) { find_characters(text, matches, is_match_); });
  }
  Cut cut_;
  bool (*is_match_)(std::int32_t);
};

/// BERT's words: without white space, each punctuation character alone.
class BertWords final : public PreTokenizer {
  void apply(SplitText& words) const override {
    cut_words(words, Cut::removed,
              [](std::string_view text, Matches& matches) { find_characters(text, matches, is_whitespace); });
    cut_words(words, Cut::isolated,
              [](std::string_view text, Matches& matches) { find_characters(text, matches, is_library_punctuation); });
  }
};

class PatternCut final : public PreTokenizer {
 public:
  explicit PatternCut(const JsonReader& object)
      : pattern_(object),
        cut_(cut_named(object.text("behavior"), object.place())),
        inverted_(object.flag("invert", false)) {}

 private:
  void apply(SplitText& words) const override {
    cut_words(words, cut_, [&](std::string_view text, Matches& matches) {
      pattern_.find_all(text, matches);
      if (inverted_)
        for (Match& part : matches) part.is_match = !part.is_match;
    });
  }
  Pattern pattern_;
  Cut cut_;
  bool inverted_;
};

/// Words and runs of other characters.
class WordRuns final : public PreTokenizer {
  void apply(SplitText& words) const override {
    cut_words(words, Cut::removed, [&](std::string_view text, Matches& matches) {
      regex_.find_all(text, matches);
      for (Match& part : matches) part.is_match = !part.is_match;
    });
  }
  Regex regex_{R"(\w+|[^\w\s]+)", "Whitespace"};
};

class MetaspaceWords final : public PreTokenizer {
 public:
  explicit MetaspaceWords(const JsonReader& object)
      : metaspace_(read_metaspace(object)), cuts_(object.flag("split", true)) {}

 private:
  void apply(SplitText& words) const override {
    const std::string& mark = metaspace_.mark;
    const NormalizedText& in = words.text;
    rewrite_words(words, [&](const SplitText::Word& word, NormalizedText& out) {
      const std::string_view text = words[word];
      const bool starts = metaspace_.scheme == Metaspace::always ||
                          (metaspace_.scheme == Metaspace::first && in.spans[word.begin].begin == 0);
      if (starts && !text.starts_with(' ') && !text.starts_with(mark)) out.add(mark, in.spans[word.begin]);
      for (std::size_t at = word.begin; at < word.end;) {
        if (in.text[at] == ' ') {
          out.add(mark, in.spans[at++]);
          continue;
        }
        const std::size_t next = std::min(in.text.find(' ', at), word.end);
        out.add(in, at, next);
        at = next;
      }
    });
    if (!cuts_) return;
    cut_words(words, Cut::merged_with_next, [&](std::string_view text, Matches& matches) {
      std::size_t begin = 0;
      for (std::size_t at = 0; (at = text.find(mark, begin)) != std::string_view::npos; begin = at + mark.size()) {
        if (begin < at) matches.push_back({begin, at, false});
        matches.push_back({at, at + mark.size(), true});
      }
      if (begin < text.size()) matches.push_back({begin, text.size(), false});
    });
  }
  Metaspace metaspace_;
  bool cuts_;
};

template <class Step>
std::unique_ptr<const PreTokenizer> make_words(const JsonReader& object) {
  if constexpr (std::is_constructible_v<Step, const JsonReader&>)
    return std::make_unique<Step>(object);
  else
    return std::make_unique<Step>();
}

const RegisterStep<PreTokenizer> pre_tokenizers[] = {
    {"BertPreTokenizer", make_words<BertWords>},
    {"Whitespace", make_words<WordRuns>},
    {"Split", make_words<PatternCut>},
    {"Metaspace", make_words<MetaspaceWords>},
    {"WhitespaceSplit",
     [](const JsonReader&) -> std::unique_ptr<const PreTokenizer> {
       return std::make_unique<CharacterCut>(Cut::removed, is_whitespace);
     }},
    {"Punctuation",
     [](const JsonReader& object) -> std::unique_ptr<const PreTokenizer> {
       return std::make_unique<CharacterCut>(cut_named(object.text("behavior", "Isolated"), object.place()),
                                             is_library_punctuation);
     }},
    {"Digits",
     [](const JsonReader& object) -> std::unique_ptr<const PreTokenizer> {
       return std::make_unique<CharacterCut>(object.flag("individual_digits", false) ? Cut::isolated : Cut::contiguous,
                                             is_library_number);
     }},
};

}  // namespace
}  // namespace lacuna
