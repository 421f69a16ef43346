// BERT's normalizer.
#pragma once

#include "data/text/tokenizers/normalizer.h"

namespace lacuna {

struct BertFlags {
  bool cleans = true;      // drops control characters, and turns white space into spaces
  bool spaces_cjk = true;  // puts spaces around ideographs
  bool strips_accents = true;
  bool lowers = true;
};

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(BertFlags flags) : flags_(flags) {}
  const BertFlags& flags() const { return flags_; }
  void apply(const NormalizedText& in, NormalizedText& out) const override;

 private:
  void add_ascii(unsigned char byte, SourceSpan span, NormalizedText& out) const;
  void add(std::int32_t code, SourceSpan span, NormalizedText& out) const;

  BertFlags flags_;
};

}  // namespace lacuna
