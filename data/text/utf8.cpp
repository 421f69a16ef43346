#include "data/text/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace lacuna {

Character first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                  static_cast<utf8proc_ssize_t>(text.size()), &code);
  return bytes <= 0 ? Character{} : Character{code, static_cast<std::size_t>(bytes)};
}

std::size_t find_broken_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::size_t bytes = first_character(text.substr(at)).bytes;
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::string_view::npos;
}

std::string with_replacement_characters(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t broken = std::min(find_broken_utf8(text), text.size());
    out += text.substr(0, broken);
    text.remove_prefix(broken);
    if (text.empty()) break;
    // Bytes that may follow the first: its second one has a range of its own (Unicode, table 3-7).
    const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
    const unsigned first = byte(0);
    const std::size_t follow = first >= 0xf0 && first <= 0xf4 ? 3 : first >= 0xe0 && first <= 0xef ? 2 : 1;
    const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    std::size_t length = 1;
    if (first >= 0xe0 && first <= 0xf4 && byte(1) >= low && byte(1) <= high)
      for (length = 2; length < follow && byte(length) >= 0x80 && byte(length) <= 0xbf;) ++length;
    out += "\xef\xbf\xbd";
    text.remove_prefix(length);
  }
  return out;
}

bool is_whitespace(std::int32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_control(std::int32_t code) {
  if (code < 0x80) return (code < 0x20 || code == 0x7f) && code != '\t' && code != '\n' && code != '\r';
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

bool is_punctuation(std::int32_t code) {
  if (code < 0x80)
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
  const utf8proc_category_t category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_letter_or_digit(std::int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

bool is_cjk(std::int32_t code) {
  struct Block {
    std::int32_t first, last;
  };
  // The ranges follow the tokenizers library, whose sixth block begins at 2B920; Unicode's begins at 2B820.
  static constexpr Block blocks[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                                     {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  return code >= 0x3400 &&
         std::ranges::any_of(blocks, [&](const Block& block) { return block.first <= code && code <= block.last; });
}

bool is_nonspacing_mark(std::int32_t code) { return code >= 0x300 && utf8proc_category(code) == UTF8PROC_CATEGORY_MN; }

bool is_mark(std::int32_t code) {
  if (code < 0x300) return false;
  const utf8proc_category_t category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_number(std::int32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  const utf8proc_category_t category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_word_character(std::int32_t code) {
  const utf8proc_category_t category = utf8proc_category(code);
  const bool circled = (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
                       (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) || is_mark(code) ||
         category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC ||
         code == 0x200c || code == 0x200d || circled;
}

int decompose(std::int32_t code, std::int32_t (&out)[longest_decomposition]) {
  int boundary = UTF8PROC_BOUNDCLASS_START;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(code, out, longest_decomposition, UTF8PROC_DECOMPOSE, &boundary);
  if (count > 0 && count <= longest_decomposition) return static_cast<int>(count);
  out[0] = code;
  return 1;
}

int lower_case(std::int32_t code, std::int32_t (&out)[2]) {
  if (code == 0x130) {  // the only character whose lower case has two
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = utf8proc_tolower(code);
  return 1;
}

int write_utf8(std::int32_t code, char* out) {
  return static_cast<int>(utf8proc_encode_char(code, reinterpret_cast<utf8proc_uint8_t*>(out)));
}

std::string composed(std::string_view text) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, std::free);
  return bytes < 0 ? std::string(text)
                   : std::string(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(bytes));
}

std::string beginning_of(std::string_view text, int most) {
  std::string begin;
  for (int count = 0; !text.empty(); ++count) {
    if (count == most) return begin + "…";
    const Character one = first_character(text);
    const std::size_t bytes = std::max<std::size_t>(one.bytes, 1);
    const bool shown = one.bytes > 0 && !is_control(one.code) && !is_whitespace(one.code);
    begin += shown ? text.substr(0, bytes) : " ";
    text.remove_prefix(bytes);
  }
  return begin;
}

}  // namespace lacuna
