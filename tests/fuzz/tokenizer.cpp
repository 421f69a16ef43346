// Any bytes as a tokenizer's file and as a text: the file is refused with an Error, or the text becomes ids within the
// vocabulary, whose pieces lie within the text. The first line that is `--` parts file and text.
#include "data/text/tokenizer.h"
#include "core/error.h"
#include "data/text/utf8.h"

#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  const std::string input(reinterpret_cast<const char*>(bytes), size);
  const std::size_t parts = std::min(input.find("\n--\n"), size);
  const std::string file = input.substr(0, parts), text = parts < size ? input.substr(parts + 4) : std::string();
  try {
    const Tokenizer tokenizer(file.starts_with('{') ? parse_tokenizer_json(file, "tokenizer.json")
                                                    : parse_vocabulary(file, "vocab.txt"));
    for (const Tokenizer::Piece& piece : tokenizer.pieces(text))
      if (piece.id < 0 || piece.id >= tokenizer.vocabulary().size || piece.begin > piece.end || piece.end > text.size())
        std::abort();
    const std::vector<std::int32_t> ids = tokenizer.encode(text, text, 16).tokens;
    for (const std::int32_t id : ids)
      if (id < 0 || id >= tokenizer.vocabulary().size) std::abort();
    if (find_broken_utf8(tokenizer.decode(ids)) != std::string::npos) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
