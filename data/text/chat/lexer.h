// The tokens of a chat template, with Jinja's rules for white space around tags (trim_blocks and lstrip_blocks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::chat {

enum class TokenKind : std::uint8_t {
  data,          // text between tags
  output_begin,  // {{
  output_end,
  tag_begin,  // {%
  tag_end,
  name,
  text,
  whole,
  real,
  sign,  // an operator or bracket
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text{};  // of texts without quotes and escapes
  int line = 0;
};

/// Rejects a malformed template; the message has the line.
std::vector<Token> tokens_of(std::string_view source);

/// The text without white space, as Python's strip does it.
std::string_view without_leading_blanks(std::string_view text);
std::string_view without_trailing_blanks(std::string_view text);

}  // namespace lacuna::chat
