// Steps that rewrite a text before it is cut into words.
#pragma once

#include "data/text/tokenizers/normalized_text.h"

namespace lacuna {

/// One step. `in` is UTF-8; `out` is empty.
class Normalizer {
 public:
  static constexpr const char *key = "normalizer", *list_key = "normalizers";
  virtual ~Normalizer() = default;
  virtual void apply(const NormalizedText& in, NormalizedText& out) const = 0;
};

}  // namespace lacuna
