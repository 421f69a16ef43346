// Sentencepiece's table of replacements (`Precompiled`): a double-array trie (Darts-clone) over sequences of bytes, and
// the texts that replace them, each ended by a zero byte.
#include "data/text/tokenizers/normalizer.h"
#include "data/text/tokenizers/steps.h"
#include "data/text/tokenizers/unicode_versions.h"

#include <utf8proc.h>

#include <cstring>
#include <optional>

namespace lacuna {
namespace {

std::string decode_base64(std::string_view text, const std::string& place) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) reject("{}: expected base64, got the byte 0x{:02x}", place, static_cast<unsigned char>(c));
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    if (++count % 4 != 1) bytes.push_back(static_cast<char>(bits >> (6 - 2 * ((count - 1) % 4))));
  }
  return bytes;
}

class Charsmap final : public Normalizer {
 public:
  explicit Charsmap(const JsonReader& object) {
    const std::string place = object.place() + ".precompiled_charsmap";
    const std::string bytes = decode_base64(object.text("precompiled_charsmap"), place);
    std::uint32_t size = 0;
    if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
    if (size == 0 || size % 4 != 0 || size > bytes.size() - 4)
      reject("{}: expected a trie within {} bytes, got one of {}: the file is damaged", place, bytes.size(), size);
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes.data() + 4, size);
    replacements_ = bytes.substr(4 + size);
    if (find_broken_utf8(replacements_) != std::string::npos)
      reject("{}: expected replacements in UTF-8: the file is damaged", place);
  }

 private:
  /// The replacement of the shortest prefix of `text` in the table, as the tokenizers library takes it.
  std::optional<std::string_view> replacement(std::string_view text) const {
    const auto offset = [](std::uint32_t unit) { return (unit >> 10U) << ((unit & (1U << 9U)) >> 6U); };
    std::size_t node = offset(units_[0]);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= units_.size()) break;
      const std::uint32_t unit = units_[node];
      if ((unit & (1U << 31U | 0xffU)) != byte) break;
      node ^= offset(unit);
      if ((unit >> 8U & 1U) == 0) continue;
      if (node >= units_.size()) break;
      const std::size_t begin = units_[node] & ~(1U << 31U);
      if (begin > replacements_.size()) break;
      const std::string_view rest = std::string_view(replacements_).substr(begin);
      const std::string_view found = rest.substr(0, rest.find('\0'));
      if (find_broken_utf8(found) != std::string_view::npos) break;
      return found;
    }
    return std::nullopt;
  }

  bool replace(const NormalizedText& in, std::size_t begin, std::size_t end, NormalizedText& out) const {
    const auto found = replacement(std::string_view(in.text).substr(begin, end - begin));
    if (!found) return false;
    std::vector<std::int32_t> codes;
    each_character(*found, [&](std::int32_t code, std::size_t, std::size_t) { codes.push_back(code); });
    add_replacement(in, begin, end, codes, out);
    return true;
  }

  /// A grapheme of less than 6 bytes is replaced whole, a longer one by its characters.
  void apply(const NormalizedText& in, NormalizedText& out) const override {
    const std::string_view text(in.text);
    out.reserve(text.size());
    for (std::size_t begin = 0; begin < text.size();) {
      Character last = first_character(text.substr(begin));
      std::size_t end = begin + last.bytes;
      utf8proc_int32_t state = 0;
      while (end < text.size()) {
        const Character next = first_character(text.substr(end));
        if (last.code < 0x80 && next.code < 0x80 && last.code != '\r') break;
        if (utf8proc_grapheme_break_stateful(as_in_graphemes(last.code), as_in_graphemes(next.code), &state)) break;
        end += next.bytes;
        last = next;
      }
      if (end - begin >= 6 || !replace(in, begin, end, out))
        each_character(text.substr(begin, end - begin), [&](std::int32_t, std::size_t from, std::size_t to) {
          if (!replace(in, begin + from, begin + to, out)) out.add(in, begin + from, begin + to);
        });
      begin = end;
    }
  }

  std::vector<std::uint32_t> units_;  // of the trie
  std::string replacements_;
};

const RegisterStep<Normalizer> precompiled("Precompiled",
                                           [](const JsonReader& object) -> std::unique_ptr<const Normalizer> {
                                             if (object.text("precompiled_charsmap", "").empty()) return nullptr;
                                             return std::make_unique<Charsmap>(object);
                                           });

}  // namespace
}  // namespace lacuna
