// Texts made from texts, as Python's str does it.
#pragma once

#include "data/text/chat/value.h"

#include <string>
#include <string_view>

namespace lacuna::chat {

std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// The first letter in upper case, the others in lower case; `titled`: of each word.
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);
/// Without the characters `of` at its ends; null: white space.
std::string_view stripped(std::string_view text, const std::string* of, bool at_begin, bool at_end);
/// The text of a value; rejects others, in the name of a function.
const std::string& text_in(const Value& value, std::string_view function);

}  // namespace lacuna::chat
