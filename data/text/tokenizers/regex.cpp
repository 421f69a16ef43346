#include "data/text/tokenizers/regex.h"

#include "core/error.h"
#include "data/text/tokenizers/unicode_versions.h"
#include "data/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace lacuna {
namespace {

// Members of classes. PCRE2's \s has U+180E besides, and its \w lacks marks.
constexpr std::string_view white_space =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view no_white_space =
    R"(\x00-\x08\x0e-\x1f\x21-\x84\x86-\x9f\xa1-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e})"
    R"(\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff}\x{e000}-\x{10ffff})";
constexpr std::string_view word =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view hexadecimal = "0-9A-Fa-f";

std::string word_members() { return std::string(word) + newer_members("L") + newer_members("M") + newer_members("Nd"); }

class PatternWriter {
 public:
  PatternWriter(std::string_view pattern, const std::string& place) : pattern_(pattern), place_(place) {}

  std::string write() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\')
        escape(false);
      else if (c == '[')
        bracket();
      else if (pattern_.substr(at_, 2) == "(?")
        group();
      else
        take(1);
    }
    return std::move(out_);
  }

 private:
  void take(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    reject("{}: {} in the regular expression {} is not supported", place_, what, pattern_);
  }

  void escape(bool in_class) {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\\';
    const auto members = [&](std::string_view those, bool negated) {
      out_ += in_class ? std::string(those) : fmt::format("[{}{}]", negated ? "^" : "", those);
      at_ += 2;
    };
    switch (c) {
      case 's':
        return members(white_space, false);
      case 'S':
        return in_class ? members(no_white_space, false) : members(white_space, true);
      case 'w':
        return members(word_members(), false);
      case 'h':
        return members(hexadecimal, false);
      case 'W':
      case 'H':
        if (in_class) refuse(fmt::format("\\{} within a class", c));
        return members(c == 'W' ? word_members() : std::string(hexadecimal), true);
      case 'd':
        return members("\\p{Nd}" + newer_members("Nd"), false);
      case 'p':
        if (const std::size_t end = pattern_.find('}', at_);
            pattern_.substr(at_, 3) == "\\p{" && end < pattern_.size()) {
          const std::string newer = newer_members(pattern_.substr(at_ + 3, end - at_ - 3));
          if (!in_class && !newer.empty()) out_ += '[';
          take(end + 1 - at_);
          out_ += newer;
          if (!in_class && !newer.empty()) out_ += ']';
          return;
        }
        break;
      case 'b':
      case 'B':
        if (!in_class) refuse(fmt::format("\\{}", c));
        break;
      default:
        break;
    }
    take(2);
  }

  /// Writes a class; a class within it adds its members.
  void bracket() {
    take(1);
    if (at_ < pattern_.size() && pattern_[at_] == '^') take(1);
    if (at_ < pattern_.size() && pattern_[at_] == ']') take(1);
    for (int depth = 1; depth > 0;) {
      if (at_ >= pattern_.size()) refuse("a class without its end");
      const char c = pattern_[at_];
      if (c == '\\') {
        escape(true);
      } else if (pattern_.substr(at_, 2) == "[:") {
        take(std::min(pattern_.find(":]", at_), pattern_.size() - 2) + 2 - at_);
      } else if (c == '[') {
        if (pattern_.substr(at_, 2) == "[^") refuse("a negated class within a class");
        ++depth;
        ++at_;
      } else if (c == ']') {
        if (--depth > 0)
          ++at_;
        else
          take(1);
      } else if (pattern_.substr(at_, 2) == "&&") {
        refuse("an intersection of classes");
      } else {
        take(1);
      }
    }
  }

  void group() {
    take(2);
    for (; at_ < pattern_.size() && (std::islower(static_cast<unsigned char>(pattern_[at_])) || pattern_[at_] == '-');
         ++at_)
      out_ += pattern_[at_] == 'm' ? 's' : pattern_[at_];
  }

  std::string_view pattern_;
  const std::string& place_;
  std::string out_;
  std::size_t at_ = 0;
};

std::string message_of(int error) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

}  // namespace

std::string pcre2_pattern(std::string_view pattern, const std::string& place) {
  return PatternWriter(pattern, place).write();
}

Regex::Regex(std::string_view pattern, const std::string& place) {
  constexpr std::size_t most = 1U << 16U;
  if (pattern.size() > most)
    reject("{}: expected a regular expression of {} bytes at most, got {}", place, most, pattern.size());
  const std::string written = pcre2_pattern(pattern, place);
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(),
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, context.get());
  if (code == nullptr) reject("{}: the regular expression {} is not supported: {}", place, pattern, message_of(error));
  code_ = {code, [](const void* one) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(one))); }};
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, matching is slower
}

void Regex::find_all(std::string_view text, Matches& matches) const {
  const auto* const code = static_cast<const pcre2_code*>(code_.get());
  thread_local const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(data.get());
  const auto match = [&](std::size_t from, std::uint32_t options) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK | options,
                       data.get(), nullptr);
  };
  std::size_t end = 0;  // of the last part
  for (std::size_t from = 0; from <= text.size();) {
    int status = match(from, 0);
    if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = match(from, PCRE2_NO_JIT);
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0) reject("a regular expression of the tokenizer fails on a text: {}", message_of(status));
    const std::size_t begin = std::max(found[0], end), stop = found[1];
    if (end < begin) matches.push_back({end, begin, false});
    matches.push_back({begin, stop, true});
    end = from = stop;
    if (begin == stop)  // an empty match: the next one starts a character later
      from += stop < text.size() ? std::max<std::size_t>(first_character(text.substr(stop)).bytes, 1) : 1;
  }
  if (end < text.size()) matches.push_back({end, text.size(), false});
}

}  // namespace lacuna
