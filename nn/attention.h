// Multi-head self-attention with its projections.
#pragma once

#include "nn/dropout.h"
#include "nn/linear.h"

namespace lacuna::nn {

/// fused: one op, which saves no L×L matrix. chain: matmul, softmax, dropout and matmul, which save the probabilities,
/// as papers on activation compression assume.
enum class AttentionForm : std::uint8_t { fused, chain };
inline constexpr std::array<std::pair<std::string_view, AttentionForm>, 2> names_of(AttentionForm) {
  return {{{"fused", AttentionForm::fused}, {"chain", AttentionForm::chain}}};
}

struct AttentionOptions {
  std::int64_t heads = 1;
  bool qkv_bias = true;
  double attention_dropout = 0, projection_dropout = 0;
  AttentionForm form = AttentionForm::fused;
  WeightInit init = {};  // for both projections
};

/// The inputs of attention beside x.
struct AttentionInputs {
  std::int64_t queries = 0;  // only the first n tokens are queries; 0: all
  Variable bias{};           // added to the scores: [W, heads or 1, n or 1, L], see lacuna::Attention
  Variable key_lengths{};    // i64 [B]: keys at or beyond it are masked
  Variable scale{};          // [width]; multiplies the result
  Variable residual{};       // [B, n, width]; added to it
};

/// timm's attention layer: `qkv` projects x [B, L, width] to q | k | v, `proj` projects the attention output.
class Attention : public Module {
 public:
  /// Throws Error if `options.heads` does not divide `width`.
  Attention(Module& parent, std::string_view name, std::int64_t width, const AttentionOptions& options);

  /// Maps x [B, L, width] to [B, n, width]. Bias and key lengths require the fused form.
  Variable forward(Variable x, AttentionInputs inputs = {}) const;

 private:
  Variable fused(Variable qkv, const AttentionInputs& inputs) const;
  Variable chain(Variable qkv, std::int64_t queries) const;

  std::int64_t heads_, head_width_;
  AttentionForm form_;
  Linear qkv_;
  Dropout attention_dropout_;
  Linear projection_;
  Dropout projection_dropout_;
};

}  // namespace lacuna::nn
