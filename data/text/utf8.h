// UTF-8 and the classes of characters that text is cut by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lacuna {

/// The character at the start of `text`, and how many bytes it takes; `bytes` is 0 where they are not UTF-8.
struct Character {
  std::int32_t code = 0;
  std::size_t bytes = 0;
};
Character first_character(std::string_view text);

/// Position of the first byte that is not UTF-8; npos where all are.
std::size_t find_broken_utf8(std::string_view text);

/// Unicode's White_Space.
bool is_whitespace(std::int32_t code);
/// Categories Cc, Cf and Co, without tab and line breaks: what BERT drops.
bool is_control(std::int32_t code);
/// Categories P*, and every ASCII character that is neither a letter nor a digit, space or control.
bool is_punctuation(std::int32_t code);
/// Categories L* and N*.
bool is_letter_or_digit(std::int32_t code);
/// The blocks of CJK ideographs.
bool is_cjk(std::int32_t code);
/// Category Mn.
bool is_nonspacing_mark(std::int32_t code);

/// The canonical decomposition of a character; returns how many characters it has.
constexpr int longest_decomposition = 8;
int decompose(std::int32_t code, std::int32_t (&out)[longest_decomposition]);

/// The lower case of a character; returns how many characters it has.
int lower_case(std::int32_t code, std::int32_t (&out)[2]);

/// Writes a character at `out`, which has room for 4 bytes; returns how many it takes.
int write_utf8(std::int32_t code, char* out);

}  // namespace lacuna
