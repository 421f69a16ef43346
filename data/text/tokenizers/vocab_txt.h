// vocab.txt: WordPiece's tokens, one a line.
#pragma once

#include "data/text/tokenizers/parts.h"

namespace lacuna {

/// Refuses a vocab.txt whose tokens have other ids than in tokenizer.json.
void check_vocabulary(const TokenizerText& vocabulary, const TokenizerParts& parts);
bool is_word_piece(const TokenModel& model);

}  // namespace lacuna
