#include "nn/attention.h"

#include "nn/region.h"

#include "ops/attention/attention.h"
#include "ops/attention/heads.h"
#include "ops/curves/softmax.h"
#include "ops/products/matmul.h"
#include "ops/shapes/slicing.h"

#include <cmath>

namespace lacuna::nn {

Attention::Attention(Module& parent, std::string_view name, std::int64_t width, const AttentionOptions& options)
    : Module(parent, name),
      heads_(options.heads),
      head_width_(width / options.heads),
      form_(options.form),
      qkv_(*this, "qkv", width, 3 * width,
           {.bias = options.qkv_bias, .init = options.init, .parts = {"query", "key", "value"}}),
      attention_dropout_(*this, "attn_drop", options.attention_dropout),
      projection_(*this, "proj", width, width, {.init = options.init}),
      projection_dropout_(*this, "proj_drop", options.projection_dropout) {
  expect(width % heads_ == 0, "{}: {} heads do not divide the width {}", path(), heads_, width);
}

Variable Attention::fused(Variable qkv, const AttentionInputs& inputs) const {
  return apply(lacuna::Attention{.heads = heads_,
                                 .queries = inputs.queries,
                                 .dropout = attention_dropout_.current_rate(),
                                 .stream = attention_dropout_.mask_stream()},
               std::move(qkv), inputs.bias, inputs.key_lengths);
}

Variable Attention::chain(Variable qkv, std::int64_t queries) const {
  const std::int64_t length = qkv.shape()[1];
  Variable first = qkv;  // [B, n, 3 · width]
  if (queries != 0 && queries != length)
    first = apply(Slice{.axis = 1, .begin = 0, .end = queries, .extent = length}, std::move(first));
  Variable q = apply(SplitHeads{.heads = heads_, .part = 0}, std::move(first));  // [B, H, n, d]
  Variable k = apply(SplitHeads{.heads = heads_, .part = 1}, qkv);               // [B, H, L, d]
  Variable v = apply(SplitHeads{.heads = heads_, .part = 2}, std::move(qkv));    // [B, H, L, d]
  const double scale = 1 / std::sqrt(static_cast<double>(head_width_));
  Variable scores = apply(MatMul{.transpose_b = true, .scale = scale}, std::move(q), std::move(k));  // [B, H, n, L]
  Variable probabilities = apply(Softmax{}, std::move(scores));                                      // [B, H, n, L]
  Variable mixed = apply(MatMul{}, attention_dropout_.forward(std::move(probabilities)), std::move(v));
  return apply(MergeHeads{.heads = heads_}, std::move(mixed));  // [B, n, width]
}

Variable Attention::forward(Variable x, AttentionInputs inputs) const {
  expect(form_ == AttentionForm::fused || !(inputs.bias.defined() || inputs.key_lengths.defined()),
         "{}: a bias or key lengths need the fused form of attention", path());
  std::vector<Variable> read{std::move(x), std::move(inputs.bias), std::move(inputs.residual)};
  return run_region(
      *this, std::move(read),
      [this, queries = inputs.queries, lengths = inputs.key_lengths, scale = inputs.scale](std::vector<Variable> in) {
        const Scope scope(*this);
        Variable qkv = qkv_.forward(std::move(in[0]));  // [B, L, 3 · width]
        Variable mixed =
            form_ == AttentionForm::chain
                ? chain(std::move(qkv), queries)
                : fused(std::move(qkv), {.queries = queries, .bias = std::move(in[1]), .key_lengths = lengths});
        return add_branch(std::move(in[2]), projection_dropout_,
                          [&](Variable to) { return projection_.forward(std::move(mixed), scale, {}, std::move(to)); });
      });
}

}  // namespace lacuna::nn
