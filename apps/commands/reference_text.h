// Reference files of models of text.
#pragma once

#include "models/io/safetensors.h"
#include "models/model.h"

namespace lacuna {

/// `input/ids`, `input/mask` (1 for tokens, 0 behind them) and `input/types` i64 [N, L], where the file has them,
/// without padding: `tokens`, `token_types` and `offsets`. `target` i64: [N]; of each token [T], -100 where it has no
/// label; or [N, 2] of first and last tokens.
struct TextReference {
  Batch batch;  // with `rows` where only some tokens have a label
  Variable targets;
};
TextReference load_text_reference(const SafetensorsFile& file, const Model& model);

/// The loss that transformers' class gives, and the logits; outputs of a model with any head.
struct TextResult {
  Variable logits, loss;
};
TextResult text_result(Outputs outputs, const TextReference& reference);

}  // namespace lacuna
