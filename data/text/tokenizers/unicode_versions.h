// Characters that the tokenizers library (0.23), whose tables are of several versions of Unicode, has otherwise than
// ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lacuna {

/// Punctuation by the library's tables, of Unicode 8.
bool is_library_punctuation(std::int32_t code);

/// Numbers by the library's tables, of Unicode 17.
bool is_library_number(std::int32_t code);

/// The character, or one that is known for a mark since Unicode 16 that goes on a grapheme by the library's tables.
std::int32_t as_in_graphemes(std::int32_t code);

/// Whether the library's normalization forms, of Unicode 9, pass a character by as one that nothing joins.
bool is_newer_than_forms(std::int32_t code);

/// Members of a general category as of Unicode 16, which PCRE2's tables may lack: a part of a class of a regular
/// expression. Empty: none, or a category that is not listed.
std::string newer_members(std::string_view category);

}  // namespace lacuna
