#include "data/text/chat/texts.h"

#include "data/text/chat/lexer.h"
#include "data/text/utf8.h"

#include <utf8proc.h>

namespace lacuna::chat {
namespace {

template <class Map>
std::string mapped(std::string_view text, const Map& map) {
  std::string out;
  char bytes[4];
  for (const std::string_view sign : characters(text))
    out.append(bytes, static_cast<std::size_t>(write_utf8(map(first_character(sign).code), bytes)));
  return out;
}

}  // namespace

std::string upper(std::string_view text) { return mapped(text, utf8proc_toupper); }
std::string lower(std::string_view text) { return mapped(text, utf8proc_tolower); }

std::string capitalized(std::string_view text) {
  bool is_first = true;
  return mapped(text, [&](std::int32_t code) {
    return std::exchange(is_first, false) ? utf8proc_totitle(code) : utf8proc_tolower(code);
  });
}

std::string titled(std::string_view text) {
  bool starts = true;
  return mapped(text, [&](std::int32_t code) {
    const bool separates =
        is_whitespace(code) ||
        (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) != std::string_view::npos);
    const std::int32_t out = starts ? utf8proc_toupper(code) : utf8proc_tolower(code);
    starts = separates;
    return out;
  });
}

std::string_view stripped(std::string_view text, const std::string* of, bool at_begin, bool at_end) {
  if (of == nullptr) {
    if (at_begin) text = without_leading_blanks(text);
    return at_end ? without_trailing_blanks(text) : text;
  }
  const auto is_one = [&](std::string_view sign) { return of->find(sign) != std::string::npos; };
  while (at_begin && !text.empty()) {
    const std::size_t bytes = std::max<std::size_t>(1, first_character(text).bytes);
    if (!is_one(text.substr(0, bytes))) break;
    text.remove_prefix(bytes);
  }
  while (at_end && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0U) == 0x80U) --begin;
    if (!is_one(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

}  // namespace lacuna::chat
