#include "data/text/chat/lexer.h"

#include "core/error.h"
#include "data/text/utf8.h"

#include <algorithm>
#include <charconv>

namespace lacuna::chat {
namespace {

bool is_blank(std::int32_t code) { return is_whitespace(code) || (code >= 0x1c && code <= 0x1f); }

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Line breaks as `\n`, and without one at the end.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool take(std::string_view sign) {
    if (!rest().starts_with(sign)) return false;
    advance(sign.size());
    return true;
  }
  void advance(std::size_t bytes) {
    line_ += static_cast<int>(std::ranges::count(rest().substr(0, bytes), '\n'));
    at_ += bytes;
  }
  void skip_blanks() { advance(rest().size() - without_leading_blanks(rest()).size()); }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void read_data() {
    std::size_t begin = rest().find('{');
    while (begin != std::string::npos &&
           (begin + 1 == rest().size() || std::string_view("{%#").find(rest()[begin + 1]) == std::string_view::npos))
      begin = rest().find('{', begin + 1);
    const std::string_view all = rest().substr(0, begin);
    std::string_view data = all;
    const bool starts_line = at_ == 0 || source_[at_ - 1] == '\n';
    const char sign = begin < rest().size() && begin + 2 < rest().size() ? rest()[begin + 2] : ' ';
    const bool is_tag = begin < rest().size() && rest()[begin + 1] != '{';
    if (begin < rest().size() && sign == '-') {
      data = without_trailing_blanks(data);
    } else if (is_tag && sign != '+') {
      const std::size_t line = data.rfind('\n') + 1;  // 0: there is none
      if ((line > 0 || starts_line) && data.find_first_not_of(" \t", line) == std::string_view::npos)
        data = data.substr(0, line);
    }
    if (!data.empty()) add(TokenKind::data, std::string(data));
    advance(all.size());
    if (at_ == source_.size()) return;
    const char kind = rest()[1];
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#')
      skip_comment();
    else
      read_tag(kind == '{');
  }
  void skip_comment() {
    const std::size_t end = rest().find("#}");
    if (end == std::string_view::npos) reject("line {}: expected `#}}` that ends the comment", line_);
    const char before = end > 0 ? rest()[end - 1] : ' ';
    advance(end + 2);
    if (before == '-')
      skip_blanks();
    else if (before != '+')
      take("\n");
  }
  /// Whether the tag ends here, and white space behind it is dropped.
  bool ends(bool is_output) {
    const std::string_view end = is_output ? "}}" : "%}";
    if (rest().starts_with('-') && rest().substr(1).starts_with(end)) {
      advance(3);
      skip_blanks();
      return true;
    }
    if (!is_output && take("+%}")) return true;
    if (!take(end)) return false;
    if (!is_output) take("\n");
    return true;
  }
  void read_tag(bool is_output) {
    add(is_output ? TokenKind::output_begin : TokenKind::tag_begin, "");
    const int begun = line_;
    std::string open;
    for (;;) {
      skip_blanks();
      if (at_ == source_.size()) reject("line {}: expected the end of the tag, got the end of the template", begun);
      const int line = line_;
      if (open.empty() && ends(is_output)) {
        tokens_.push_back({is_output ? TokenKind::output_end : TokenKind::tag_end, "", line});
        return;
      }
      read_token(open);
    }
  }
  void read_token(std::string& open) {
    const char c = rest().front();
    if (c == '"' || c == '\'') return read_text(c);
    if (is_digit(c)) return read_number();
    if (is_name_start(c)) {
      std::size_t bytes = 1;
      while (bytes < rest().size() && (is_name_start(rest()[bytes]) || is_digit(rest()[bytes]))) ++bytes;
      add(TokenKind::name, std::string(rest().substr(0, bytes)));
      return advance(bytes);
    }
    for (const std::string_view sign : {"//", "**", "==", "!=", ">=", "<="})
      if (rest().starts_with(sign)) {
        add(TokenKind::sign, std::string(sign));
        return advance(sign.size());
      }
    constexpr std::string_view signs = "+-/*%~[](){}><=.:|,";
    if (signs.find(c) == std::string_view::npos)
      reject("line {}: expected an expression, got `{}`", line_, characters_at());
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (!open.ends_with(c)) reject("line {}: got `{}` without the bracket that it closes", line_, c);
      open.pop_back();
    }
    add(TokenKind::sign, std::string(1, c));
    advance(1);
  }
  std::string characters_at() const {
    return std::string(rest().substr(0, std::max<std::size_t>(1, first_character(rest()).bytes)));
  }
  void read_number() {
    const auto run = [&](std::size_t from) {
      return std::min(rest().find_first_not_of("0123456789_", from), rest().size());
    };
    std::size_t bytes = run(0);
    TokenKind kind = TokenKind::whole;
    const auto digit_at = [&](std::size_t at) { return at < rest().size() && is_digit(rest()[at]); };
    if (bytes < rest().size() && rest()[bytes] == '.' && digit_at(bytes + 1)) {
      bytes = run(bytes + 1);
      kind = TokenKind::real;
    }
    if (bytes < rest().size() && (rest()[bytes] == 'e' || rest()[bytes] == 'E')) {
      const std::size_t sign = bytes + 1 < rest().size() && (rest()[bytes + 1] == '+' || rest()[bytes + 1] == '-');
      if (digit_at(bytes + 1 + sign)) {
        bytes = run(bytes + 1 + sign);
        kind = TokenKind::real;
      }
    }
    std::string number(rest().substr(0, bytes));
    if (bytes < rest().size() && is_name_start(rest()[bytes]))
      reject("line {}: expected a decimal number, got `{}{}`", line_, number, rest()[bytes]);
    std::erase(number, '_');
    add(kind, std::move(number));
    advance(bytes);
  }
  void read_text(char quote) {
    std::string out;
    std::size_t i = 1;
    const int begun = line_;
    const auto left = [&] { return i < rest().size(); };
    while (left() && rest()[i] != quote) {
      if (rest()[i] != '\\') {
        out += rest()[i++];
        continue;
      }
      ++i;
      if (left()) read_escape(i, out);
    }
    if (!left()) reject("line {}: expected `{}` that ends the text", begun, quote);
    add(TokenKind::text, std::move(out));
    advance(i + 1);
  }
  /// Python's escapes; `i` is behind the backslash. Unknown ones keep it.
  void read_escape(std::size_t& i, std::string& out) {
    constexpr std::string_view letters = "\\'\"abfnrtv", values = "\\'\"\a\b\f\n\r\t\v";
    const char c = rest()[i];
    if (const std::size_t at = letters.find(c); at != std::string_view::npos) {
      out += values[at];
      ++i;
      return;
    }
    if (c == '\n') {
      ++i;
      return;
    }
    const bool is_octal = c >= '0' && c <= '7';
    const std::size_t most = is_octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (most == 0) {
      if (c == 'N') reject("line {}: escapes of characters by name, `\\N`, are not supported", line_);
      out += '\\';
      return;
    }
    if (!is_octal) ++i;
    const std::string_view from = rest().substr(i, most);
    std::int32_t code = 0;
    const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), code, is_octal ? 8 : 16);
    const auto used = static_cast<std::size_t>(end - from.data());
    const bool is_character = code >= 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    if (error != std::errc{} || (!is_octal && used < most) || !is_character)
      reject("line {}: expected the {} digits of a character behind `\\{}`", line_, most, c);
    char bytes[4];
    out.append(bytes, static_cast<std::size_t>(write_utf8(code, bytes)));
    i += used;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_{};
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) {
  if (const std::size_t broken = find_broken_utf8(source); broken != std::string::npos)
    reject("expected UTF-8, got other bytes at {}", broken);
  const std::string plain = with_plain_lines(source);
  return Lexer(plain).run();
}

std::string_view without_leading_blanks(std::string_view text) {
  while (!text.empty()) {
    const Character first = first_character(text);
    if (first.bytes == 0 || !is_blank(first.code)) break;
    text.remove_prefix(first.bytes);
  }
  return text;
}

std::string_view without_trailing_blanks(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0U) == 0x80U) --begin;
    const Character last = first_character(text.substr(begin));
    if (last.bytes == 0 || !is_blank(last.code)) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

}  // namespace lacuna::chat
