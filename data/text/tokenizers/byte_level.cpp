#include "data/text/tokenizers/byte_level.h"

#include "data/text/tokenizers/decoder.h"
#include "data/text/tokenizers/pre_tokenizer.h"
#include "data/text/tokenizers/steps.h"

#include <array>

namespace lacuna {
namespace {

constexpr int mapped_codes = 324;  // U+0143 is the last

struct ByteTable {
  char characters[256][2];
  unsigned char lengths[256];
  std::array<std::int16_t, mapped_codes> bytes;

  ByteTable() {
    bytes.fill(-1);
    std::int32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
      const std::int32_t code = printable ? byte : next++;
      char out[4];
      lengths[byte] = static_cast<unsigned char>(write_utf8(code, out));
      std::copy(out, out + 2, characters[byte]);
      bytes[static_cast<std::size_t>(code)] = static_cast<std::int16_t>(byte);
    }
  }
};
const ByteTable& byte_table() {
  static const ByteTable table;
  return table;
}

class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(const JsonReader& object) : adds_space_(object.flag("add_prefix_space", true)) {
    if (object.flag("use_regex", true))
      regex_.emplace(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", object.place());
  }

 private:
  void apply(SplitText& words) const override {
    if (adds_space_)
      rewrite_words(words, [&](const SplitText::Word& word, NormalizedText& out) {
        if (!words[word].starts_with(' ')) out.add(' ', words.text.spans[word.begin]);
        out.add(words.text, word.begin, word.end);
      });
    if (regex_)
      cut_words(words, Cut::isolated,
                [&](std::string_view text, Matches& matches) { regex_->find_all(text, matches); });
    rewrite_words(words, [&](const SplitText::Word& word, NormalizedText& out) {
      for (std::size_t at = word.begin; at < word.end; ++at)
        out.add(byte_character(static_cast<unsigned char>(words.text.text[at])), words.text.spans[at]);
    });
  }
  bool adds_space_;
  std::optional<Regex> regex_;
};

/// Joins the bytes of all tokens; bytes that are not UTF-8 become U+FFFD. A token with a character that stands for no
/// byte is taken as it is.
class ByteLevelDecoder final : public DecodingStep {
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) {
      const std::size_t begin = all.size();
      bool maps = true;
      each_character(token, [&](std::int32_t code, std::size_t, std::size_t) {
        const int byte = byte_of(code);
        maps = maps && byte >= 0;
        all.push_back(static_cast<char>(byte));
      });
      if (!maps) all.replace(begin, std::string::npos, token);
    }
    tokens.assign(1, with_replacement_characters(all));
  }
};

const RegisterStep<PreTokenizer> byte_level("ByteLevel",
                                            [](const JsonReader& object) -> std::unique_ptr<const PreTokenizer> {
                                              return std::make_unique<ByteLevel>(object);
                                            });
const RegisterStep<DecodingStep> byte_level_decoder("ByteLevel", [](const JsonReader&) -> std::unique_ptr<const DecodingStep> {
  return std::make_unique<ByteLevelDecoder>();
});

}  // namespace

std::string_view byte_character(unsigned char byte) {
  const ByteTable& table = byte_table();
  return {table.characters[byte], table.lengths[byte]};
}

int byte_of(std::int32_t code) {
  return code < 0 || code >= mapped_codes ? -1 : byte_table().bytes[static_cast<std::size_t>(code)];
}

}  // namespace lacuna
