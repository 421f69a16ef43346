#include "data/text/tokenizers/bert_normalizer.h"

#include "data/text/tokenizers/steps.h"

namespace lacuna {

void BertNormalizer::apply(const NormalizedText& in, NormalizedText& out) const {
  out.reserve(in.text.size());
  each_character(in.text, [&](std::int32_t code, std::size_t begin, std::size_t) {
    if (code < 0x80)
      add_ascii(static_cast<unsigned char>(code), in.spans[begin], out);
    else
      add(code, in.spans[begin], out);
  });
}

void BertNormalizer::add_ascii(unsigned char byte, SourceSpan span, NormalizedText& out) const {
  if (flags_.cleans) {
    if (is_control(byte)) return;
    if (byte < ' ') byte = ' ';
  }
  if (flags_.lowers && byte >= 'A' && byte <= 'Z') byte = static_cast<unsigned char>(byte + 32);
  out.add(static_cast<char>(byte), span);
}

void BertNormalizer::add(std::int32_t code, SourceSpan span, NormalizedText& out) const {
  if (flags_.cleans) {
    if (code == 0xfffd || is_control(code)) return;
    if (is_whitespace(code)) return out.add(' ', span);
  }
  const bool alone = flags_.spaces_cjk && is_cjk(code);
  if (alone) out.add(' ', span);
  std::int32_t parts[longest_decomposition] = {code};
  const int count = flags_.strips_accents ? decompose(code, parts) : 1;
  for (int i = 0; i < count; ++i) {
    if (flags_.strips_accents && is_nonspacing_mark(parts[i])) continue;
    std::int32_t cased[2] = {parts[i]};
    const int letters = flags_.lowers ? lower_case(parts[i], cased) : 1;
    for (int letter = 0; letter < letters; ++letter) out.add_code(cased[letter], span);
  }
  if (alone) out.add(' ', span);
}

namespace {

const RegisterStep<Normalizer> bert_normalizer("BertNormalizer",
                                               [](const JsonReader& object) -> std::unique_ptr<const Normalizer> {
                                                 BertFlags flags{
                                                     .cleans = object.flag("clean_text", true),
                                                     .spaces_cjk = object.flag("handle_chinese_chars", true),
                                                     .lowers = object.flag("lowercase", true)};
                                                 flags.strips_accents = object.flag("strip_accents", flags.lowers);
                                                 return std::make_unique<BertNormalizer>(flags);
                                               });

}  // namespace
}  // namespace lacuna
