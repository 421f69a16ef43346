// Common code of tasks on text.
#pragma once

#include "models/model.h"

#include <optional>
#include <string_view>

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

/// The texts of a batch's tokens: `spans` i64 [T, 2], the bytes that each token stands for (-1: none) in the `passage`
/// u8 of its sample, whose bytes begin and end at `passage_offsets` i64 [N + 1].
class TokenTexts {
 public:
  /// Takes the three from the batch; nothing: it has none.
  static std::optional<TokenTexts> take(Inputs& batch);

  /// Whether the token in a row of `spans` stands for text.
  bool has_text(std::int64_t row) const { return spans_.data<const std::int64_t>()[2 * row] >= 0; }
  /// The text from one token to another, both included, of sample `n`.
  std::string_view text(std::int64_t n, std::int64_t first, std::int64_t last) const;

 private:
  TokenTexts(Tensor spans, Tensor passage, Tensor offsets);

  Tensor spans_, passage_, offsets_;
};

/// The text of sample `n` in packed bytes.
std::string_view text_of(const Tensor& bytes, const Tensor& offsets, std::int64_t n);

}  // namespace lacuna
