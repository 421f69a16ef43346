// UTF-8 decoding and the character classes that tokenization uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lacuna {

/// The first character of a text and its number of bytes; `bytes` is 0 if it is not valid UTF-8.
struct Character {
  std::int32_t code = 0;
  std::size_t bytes = 0;
};
Character first_character(std::string_view text);

/// Position of the first byte that is not valid UTF-8; npos if there is none.
std::size_t find_broken_utf8(std::string_view text);

/// The text with each longest beginning of a character that does not go on as UTF-8 replaced by U+FFFD.
std::string with_replacement_characters(std::string_view text);

/// The first `most` characters in one line, then an ellipsis where there are more.
std::string beginning_of(std::string_view text, int most);

/// Unicode's White_Space.
bool is_whitespace(std::int32_t code);
/// Categories Cc, Cf and Co except tab and line breaks, which BERT drops.
bool is_control(std::int32_t code);
/// Categories P*, and every ASCII character that is not a letter, digit, space or control character.
bool is_punctuation(std::int32_t code);
/// Categories L* and N*.
bool is_letter_or_digit(std::int32_t code);
/// The blocks of CJK ideographs.
bool is_cjk(std::int32_t code);
/// Category Mn.
bool is_nonspacing_mark(std::int32_t code);
/// Categories M*.
bool is_mark(std::int32_t code);
/// Categories N*.
bool is_number(std::int32_t code);
/// Letters, marks, decimal and letter-like digits, and connectors: the \w of regular expressions.
bool is_word_character(std::int32_t code);

/// Writes the canonical decomposition of a character to `out`; returns its number of characters.
constexpr int longest_decomposition = 8;
int decompose(std::int32_t code, std::int32_t (&out)[longest_decomposition]);

/// Writes the lower case of a character to `out`; returns its number of characters.
int lower_case(std::int32_t code, std::int32_t (&out)[2]);

/// Writes a character to `out`, which has room for 4 bytes; returns the number of bytes written.
int write_utf8(std::int32_t code, char* out);

/// The composed form (NFC), in which texts that look the same are the same; invalid UTF-8 stays as it is.
std::string composed(std::string_view text);

}  // namespace lacuna
