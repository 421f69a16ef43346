// Common code of tasks on text.
#pragma once

#include "models/model.h"

#include <limits>
#include <optional>
#include <string_view>

namespace lacuna {

/// The label of tokens that have none.
inline constexpr std::int64_t no_label = -100;

/// Tokens with a label: their rows, i64 [M], and the labels, i64 [M].
struct LabelledTokens {
  Variable rows, labels;
  std::int64_t count;  // M, or 0: the batch has none, and the first token stands in with label 0

  /// The mean loss of the rows; 0 where none has a label.
  Variable loss(Variable mean) const;

  /// Adds them to a prepared batch (Task::prepared), on the host as they are.
  void add_to(Batch& batch) const;
  /// Takes them from a prepared batch, on `device`; nothing: it has none.
  static std::optional<LabelledTokens> take(Inputs& batch, Device device);
  /// Whether `field` is one that add_to adds and kernels read.
  static bool has(std::string_view field) { return field == "rows" || field == "row_labels"; }
};

/// `labels`: i64, of each token or `no_label`. The results are on `device`. On `meta`, where labels have no values, the
/// first `most` tokens.
LabelledTokens labelled_tokens(const Variable& labels, Device device,
                               std::int64_t most = std::numeric_limits<std::int64_t>::max());
/// The number of tokens with a label; of a tensor on `meta` that of all.
std::int64_t count_labelled(const Tensor& labels);

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
