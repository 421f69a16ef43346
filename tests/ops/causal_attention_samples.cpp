#include "ops/attention/causal_attention.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample causal(std::string name, std::int64_t head_dim, CausalAttention op) {
  const std::int64_t rows = op.sequences->rows(), asked = (op.queries == nullptr ? op.sequences : op.queries)->rows();
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=, heads = op.heads, kv_heads = op.kv_heads](DType dtype) {
                return std::vector{sample_values({1, asked, heads * head_dim}, dtype, 1),
                                   sample_values({1, rows, kv_heads * head_dim}, dtype, 2),
                                   sample_values({1, rows, kv_heads * head_dim}, dtype, 3)};
              },
          .differentiable = {0, 1, 2}};
}
SequencesPtr packed(const std::vector<std::int64_t>& offsets) { return Sequences::packed(offsets); }
SequencesPtr padded(const std::vector<std::int64_t>& lengths, std::int64_t rows) {
  return Sequences::padded(lengths, rows);
}

constexpr RandomStream stream{3, 5, 7};

const RegisterSample attentions[] = {
    RegisterSample(causal("causal_attention", 9, {.heads = 2, .kv_heads = 2, .sequences = packed({0, 7, 8, 21})})),
    RegisterSample(causal("causal_attention, grouped", 8, {.heads = 6, .kv_heads = 2, .sequences = packed({0, 13})})),
    RegisterSample(causal("causal_attention, dense", 8, {.heads = 4, .kv_heads = 2, .sequences = packed({0, 5, 10})})),
    RegisterSample(causal("causal_attention of heads of 8, packed", 8,
                          {.heads = 4, .kv_heads = 2, .sequences = packed({0, 7, 8, 21})})),
    RegisterSample(causal("causal_attention of heads of 8, padded", 8,
                          {.heads = 4, .kv_heads = 2, .sequences = padded({5, 1, 6}, 7)})),
    RegisterSample(causal("causal_attention, padded", 3,
                          {.heads = 3, .kv_heads = 1, .sequences = padded({5, 1, 6}, 7), .scale = 0.7})),
    RegisterSample(causal("causal_attention, window", 5,
                          {.heads = 2, .kv_heads = 1, .sequences = packed({0, 70, 75}), .window = 4})),
    RegisterSample(causal("causal_attention, several tiles", 2,
                          {.heads = 3, .kv_heads = 1, .sequences = packed({0, 3, 143}), .window = 65})),
    RegisterSample(causal("causal_attention, tokens ahead", 5,
                          {.heads = 4, .kv_heads = 2, .sequences = packed({0, 70, 75}), .window = 9, .ahead = 5})),
    RegisterSample(causal("causal_attention, wide heads", 200,
                          {.heads = 2, .kv_heads = 1, .sequences = packed({0, 9}), .scale = 0.05})),
    RegisterSample(causal("causal_attention, soft cap", 4,
                          {.heads = 2, .kv_heads = 2, .sequences = packed({0, 11}), .scale = 1, .soft_cap = 3})),
    RegisterSample(causal("causal_attention, slopes", 6,
                          {.heads = 3, .kv_heads = 3, .sequences = packed({0, 4, 17}), .alibi = alibi_slopes(3)})),
    RegisterSample(causal(
        "causal_attention, slopes in bf16", 6,
        {.heads = 3, .kv_heads = 3, .sequences = packed({0, 4, 17}), .alibi = alibi_slopes(3), .rounds_alibi = true})),
    RegisterSample(causal("causal_attention, last queries", 4,
                          {.heads = 4, .kv_heads = 2, .sequences = packed({0, 9, 14}), .queries = packed({0, 3, 5})})),
    RegisterSample(causal("causal_attention, one query of a cache", 4,
                          {.heads = 6, .kv_heads = 2, .sequences = packed({0, 9, 50}), .queries = packed({0, 1, 2})})),
    RegisterSample(causal("causal_attention, all options", 7,
                          {.heads = 4,
                           .kv_heads = 2,
                           .sequences = padded({9, 4, 11}, 12),
                           .queries = padded({9, 2, 3}, 10),
                           .window = 5,
                           .ahead = 2,
                           .soft_cap = 4,
                           .alibi = {0.5, 0.3, 0.2, 0.1},
                           .dropout = 0.3,
                           .stream = stream,
                           .positions = 20}))};

}  // namespace
}  // namespace lacuna
