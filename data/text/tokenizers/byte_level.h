// GPT-2's printable characters for bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace lacuna {

/// The character of a byte in UTF-8: itself where it is printable, else from U+0100 on.
std::string_view byte_character(unsigned char byte);
/// The byte of a character; -1: none.
int byte_of(std::int32_t code);

}  // namespace lacuna
