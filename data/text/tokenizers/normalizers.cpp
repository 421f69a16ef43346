// Short normalizers of the tokenizers library.
#include "data/text/tokenizers/normalizer.h"
#include "data/text/tokenizers/pattern.h"
#include "data/text/tokenizers/steps.h"

#include <span>

namespace lacuna {
namespace {

class Lowercase final : public Normalizer {
  void apply(const NormalizedText& in, NormalizedText& out) const override {
    each_character(in.text, [&](std::int32_t code, std::size_t begin, std::size_t end) {
      std::int32_t lower[2];
      const int count = lower_case(code, lower);
      add_replacement(in, begin, end, std::span(lower, static_cast<std::size_t>(count)), out);
    });
  }
};

/// Keeps the characters for which `Keeps` holds.
template <bool (*Keeps)(std::int32_t)>
class Filter final : public Normalizer {
  void apply(const NormalizedText& in, NormalizedText& out) const override {
    each_character(in.text, [&](std::int32_t code, std::size_t begin, std::size_t end) {
      if (Keeps(code)) out.add(in, begin, end);
    });
  }
};

bool is_no_mark(std::int32_t code) { return !is_mark(code); }

/// Removes control characters and turns other characters without ink into spaces, as sentencepiece's rules `nmt`.
class Nmt final : public Normalizer {
  static bool is_dropped(std::int32_t c) {
    return (c >= 0x1 && c <= 0x8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
  }
  static bool is_space(std::int32_t c) {
    return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
           c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  }
  void apply(const NormalizedText& in, NormalizedText& out) const override {
    each_character(in.text, [&](std::int32_t code, std::size_t begin, std::size_t end) {
      if (is_dropped(code)) return;
      if (is_space(code)) return out.add(' ', in.spans[begin]);
      out.add(in, begin, end);
    });
  }
};

/// Removes white space at the ends.
class Strip final : public Normalizer {
 public:
  explicit Strip(const JsonReader& object)
      : left_(object.flag("strip_left", true)), right_(object.flag("strip_right", true)) {}

 private:
  void apply(const NormalizedText& in, NormalizedText& out) const override {
    const std::size_t all = in.text.size();
    std::size_t first = left_ ? all : 0, last = right_ ? 0 : all;
    each_character(in.text, [&](std::int32_t code, std::size_t begin, std::size_t end) {
      if (is_whitespace(code)) return;
      first = std::min(first, begin);
      last = std::max(last, end);
    });
    if (first < last) out.add(in, first, last);
  }
  bool left_, right_;
};

/// Puts a text in front; an empty text stays empty.
class Prepend final : public Normalizer {
 public:
  explicit Prepend(const JsonReader& object) : prefix_(object.text("prepend")) {}

 private:
  void apply(const NormalizedText& in, NormalizedText& out) const override {
    if (in.text.empty()) return;
    out.add(prefix_, in.spans.front());
    out.add(in, 0, in.text.size());
  }
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  explicit Replace(const JsonReader& object) : pattern_(object), content_(object.text("content")) {}

 private:
  void apply(const NormalizedText& in, NormalizedText& out) const override {
    Matches matches;
    pattern_.find_all(in.text, matches);
    out.reserve(in.text.size());
    for (const Match& part : matches) {
      if (!part.is_match)
        out.add(in, part.begin, part.end);
      else if (part.begin < part.end)
        out.add(content_, in.spans[part.end - 1]);
    }
  }
  Pattern pattern_;
  std::string content_;
};

template <class Step>
std::unique_ptr<const Normalizer> make_normalizer(const JsonReader& object) {
  if constexpr (std::is_constructible_v<Step, const JsonReader&>)
    return std::make_unique<Step>(object);
  else
    return std::make_unique<Step>();
}

const RegisterStep<Normalizer> normalizers[] = {
    {"Lowercase", make_normalizer<Lowercase>},
    {"StripAccents", make_normalizer<Filter<is_no_mark>>},
    {"Nmt", make_normalizer<Nmt>},
    {"Strip", make_normalizer<Strip>},
    {"Prepend", make_normalizer<Prepend>},
    {"Replace", make_normalizer<Replace>},
};

}  // namespace
}  // namespace lacuna
