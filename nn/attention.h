// Multi-head self-attention with its projections.
#pragma once

#include "nn/dropout.h"
#include "nn/linear.h"

namespace lacuna::nn {

/// How attention is computed. fused: one op, nothing of size L×L is kept. chain: matmul, softmax, (dropout,) matmul,
/// which keeps the probabilities, as the papers on activation compression have it.
enum class AttentionForm : std::uint8_t { fused, chain };

struct AttentionOptions {
  std::int64_t heads = 1;
  bool qkv_bias = true;
  double attention_dropout = 0, projection_dropout = 0;
  AttentionForm form = AttentionForm::fused;
  WeightInit init = {};  // of both projections
};

/// timm's layer: `qkv` projects x [B, L, width] to q | k | v, `proj` what the heads yield. Attention dropout needs the
/// chain: the fused op has no probabilities to leave out.
class Attention : public Module {
 public:
  Attention(Module& parent, std::string_view name, std::int64_t width, const AttentionOptions& options);

  /// [B, L, width] to [B, n, width]: the first n = `queries` tokens ask, all L are attended to. 0: all ask.
  Variable forward(Variable x, std::int64_t queries = 0) const;

 private:
  Variable chain(Variable qkv, std::int64_t queries) const;

  std::int64_t heads_, head_width_;
  AttentionForm form_;
  Linear qkv_;
  Dropout attention_dropout_;
  Linear projection_;
  Dropout projection_dropout_;
};

}  // namespace lacuna::nn
