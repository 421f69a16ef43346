// Common code of tasks on text.
#pragma once

#include "models/model.h"

namespace lacuna {

/// The label of tokens that have none.
inline constexpr std::int64_t no_label = -100;

/// Tokens with a label: their rows, i64 [M], and the labels, i64 [M].
struct LabelledTokens {
  Variable rows, labels;
};

/// `labels`: i64, of each token or `no_label`. The results are on `device`. Refuses a batch without any. On `meta`,
/// where labels have no values, the first `share` of the tokens.
LabelledTokens labelled_tokens(const Variable& labels, Device device, double share = 1);

}  // namespace lacuna
