// A text under normalization that knows the source of each of its bytes.
#pragma once

#include "data/text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Bytes [begin, end) of the source.
struct SourceSpan {
  std::uint32_t begin = 0, end = 0;
};

struct NormalizedText {
  std::string text{};
  std::vector<SourceSpan> spans{};  // [text.size()]: the source of each byte

  void reserve(std::size_t bytes) {
    text.reserve(bytes);
    spans.reserve(bytes);
  }
  void clear() {
    text.clear();
    spans.clear();
  }
  void add(char byte, SourceSpan span) {
    text.push_back(byte);
    spans.push_back(span);
  }
  void add(std::string_view bytes, SourceSpan span) {
    text += bytes;
    spans.insert(spans.end(), bytes.size(), span);
  }
  void add_code(std::int32_t code, SourceSpan span) {
    char bytes[4];
    add(std::string_view(bytes, static_cast<std::size_t>(write_utf8(code, bytes))), span);
  }
  /// Adds the bytes [begin, end) of another text.
  void add(const NormalizedText& other, std::size_t begin, std::size_t end) {
    text.append(other.text, begin, end - begin);
    spans.insert(spans.end(), other.spans.begin() + static_cast<std::ptrdiff_t>(begin),
                 other.spans.begin() + static_cast<std::ptrdiff_t>(end));
  }
  /// The source of the bytes [begin, end), which are one at least.
  SourceSpan source(std::size_t begin, std::size_t end) const { return {spans[begin].begin, spans[end - 1].end}; }
};

/// Calls `f(code, begin, end)` for each character of valid UTF-8.
template <class F>
void each_character(std::string_view text, F&& f) {
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    const std::size_t next = at + std::max<std::size_t>(character.bytes, 1);
    f(character.code, at, next);
    at = next;
  }
}

/// Adds `codes` in place of the bytes [begin, end) of `in`. A code's source is that of the replaced character with its
/// number, or of the last one.
template <class Codes>
void add_replacement(const NormalizedText& in, std::size_t begin, std::size_t end, const Codes& codes,
                     NormalizedText& out) {
  std::size_t from = begin;
  for (const std::int32_t code : codes) {
    out.add_code(code, in.spans[from]);
    const std::size_t next = from + first_character(std::string_view(in.text).substr(from)).bytes;
    if (next < end) from = next;
  }
}

}  // namespace lacuna
