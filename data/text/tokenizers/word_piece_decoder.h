// BERT's decoder.
#pragma once

#include "data/text/tokenizers/decoder.h"

namespace lacuna {

/// Puts a space before each token but those that continue a word.
class WordPieceDecoder final : public DecodingStep {
 public:
  /// `cleans`: takes away spaces before punctuation and English contractions.
  WordPieceDecoder(std::string prefix, bool cleans) : prefix_(std::move(prefix)), cleans_(cleans) {}
  void apply(std::vector<std::string>& tokens) const override;

 private:
  std::string prefix_;
  bool cleans_;
};

}  // namespace lacuna
