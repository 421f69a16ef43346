// Unicode's normalization forms NFC, NFD, NFKC, NFKD.
#include "data/text/tokenizers/normalizer.h"
#include "data/text/tokenizers/steps.h"
#include "data/text/tokenizers/unicode_versions.h"

#include <utf8proc.h>

namespace lacuna {
namespace {

class UnicodeForm final : public Normalizer {
 public:
  UnicodeForm(bool composes, bool compatible)
      : options_(static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                                (compatible ? UTF8PROC_COMPAT : 0))) {}

 private:
  /// Text is normalized by segments: a character with those that may join it.
  void apply(const NormalizedText& in, NormalizedText& out) const override {
    const std::string_view text(in.text);
    out.reserve(text.size());
    std::vector<utf8proc_int32_t> codes;
    for (std::size_t begin = 0; begin < text.size();) {
      const Character first = first_character(text.substr(begin));
      std::size_t end = begin + first.bytes;
      bool alone = true;
      while (end < text.size() && !is_newer_than_forms(first.code)) {
        const Character next = first_character(text.substr(end));
        if (!joins(next.code)) break;
        end += next.bytes;
        alone = false;
      }
      if (alone && stays(first.code)) {
        out.add(in, begin, end);
      } else {
        normalize(text.substr(begin, end - begin), codes);
        add_codes(in, begin, end, codes, out);
      }
      begin = end;
    }
  }

  /// The first code has the source of the first character, the last code that of the last one, and so on from the end.
  static void add_codes(const NormalizedText& in, std::size_t begin, std::size_t end,
                        const std::vector<utf8proc_int32_t>& codes, NormalizedText& out) {
    std::vector<SourceSpan> sources;
    each_character(std::string_view(in.text).substr(begin, end - begin),
                   [&](std::int32_t, std::size_t at, std::size_t) { sources.push_back(in.spans[begin + at]); });
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::size_t number = i + sources.size();
      out.add_code(codes[i], sources[i == 0 || number < codes.size() ? 0 : number - codes.size()]);
    }
  }

  void normalize(std::string_view segment, std::vector<utf8proc_int32_t>& codes) const {
    const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(segment.data());
    const auto size = static_cast<utf8proc_ssize_t>(segment.size());
    utf8proc_ssize_t count = 0;
    codes.resize(std::max<std::size_t>(segment.size() * 2, 64));
    while ((count = utf8proc_decompose(bytes, size, codes.data(), std::ssize(codes), options_)) > std::ssize(codes))
      codes.resize(static_cast<std::size_t>(count));
    if (count > 0 && (options_ & UTF8PROC_COMPOSE) != 0)
      count = utf8proc_normalize_utf32(codes.data(), count, options_);
    codes.resize(static_cast<std::size_t>(std::max<utf8proc_ssize_t>(count, 0)));
  }

  static bool is_hangul_syllable(std::int32_t code) { return code >= 0xac00 && code <= 0xd7a3; }
  /// Whether a character by itself is in the form.
  bool stays(std::int32_t code) const {
    if (code < 0x80 || is_newer_than_forms(code)) return true;
    if (is_hangul_syllable(code)) return (options_ & UTF8PROC_COMPOSE) != 0;
    return utf8proc_get_property(code)->decomp_seqindex == UINT16_MAX;
  }
  /// Whether a character may be reordered or composed with those in front of it.
  bool joins(std::int32_t code) const {
    if (code < 0x300 || is_newer_than_forms(code)) return false;
    if (!stays(code)) {
      utf8proc_int32_t parts[32];
      int boundary = UTF8PROC_BOUNDCLASS_START;
      if (utf8proc_decompose_char(code, parts, 32, options_, &boundary) > 0) code = parts[0];
    }
    return is_mark(code) || utf8proc_get_property(code)->combining_class != 0 || (code >= 0x1161 && code <= 0x1175) ||
           (code >= 0x11a8 && code <= 0x11c2);
  }

  utf8proc_option_t options_;
};

template <bool Composes, bool Compatible>
std::unique_ptr<const Normalizer> make_form(const JsonReader&) {
  return std::make_unique<UnicodeForm>(Composes, Compatible);
}

const RegisterStep<Normalizer> forms[] = {{"NFC", make_form<true, false>},
                                          {"NFD", make_form<false, false>},
                                          {"NFKC", make_form<true, true>},
                                          {"NFKD", make_form<false, true>}};

}  // namespace
}  // namespace lacuna
