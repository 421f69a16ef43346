#include "ops/attention/sequence_attention.h"
#include "ops/curves/dropout.h"
#include "ops/losses/binary_cross_entropy.h"
#include "ops/losses/linear_cross_entropy.h"
#include "ops/losses/span_cross_entropy.h"
#include "ops/norms/l2_normalize.h"
#include "ops/pooling/sequence_mean.h"
#include "ops/shapes/embedding.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

Tensor whole_numbers(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(std::span<const std::int64_t>(values), shape);
}
SequencesPtr packed(const std::vector<std::int64_t>& offsets) { return Sequences::packed(offsets); }
SequencesPtr padded(const std::vector<std::int64_t>& lengths, std::int64_t rows) {
  return Sequences::padded(lengths, rows);
}

constexpr RandomStream stream{3, 5, 7};

/// A sample of each type, since the op knows the type of its output.
std::vector<RegisterSample> embeddings(const std::string& name, std::int64_t padding, bool with_base,
                                       bool of_activations) {
  const Shape shape = of_activations ? Shape{1, 6, 5} : Shape{6, 5};
  std::vector<RegisterSample> all;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    all.emplace_back(OpSample{.name = name,
                              .op = bound(Embedding{.shape = shape, .padding = padding, .dtype = dtype}),
                              .inputs =
                                  [=](DType type) {
                                    return std::vector{
                                        sample_values(shape, of_activations ? type : compute_type(type), 1),
                                        whole_numbers({4, 0, 4, 2, 1, 4, 0}, {7}),
                                        with_base ? sample_values({1, 7, 5}, type, 2) : Tensor()};
                                  },
                              .differentiable = with_base ? InputSet{0, 2} : InputSet{0},
                              .types = {dtype},
                              .weight = with_base ? 0 : -1});
  return all;
}
const std::vector<RegisterSample> tables = embeddings("embedding", -1, false, false);
const std::vector<RegisterSample> padded_tables = embeddings("embedding with padding and a base", 5, true, false);
const std::vector<RegisterSample> selections = embeddings("embedding of activations", -1, false, true);

OpSample attention(std::string name, SequenceAttention op, std::int64_t width) {
  const std::int64_t rows = op.sequences->rows(), asked = op.queries == 0 ? rows : op.sequences->count() * op.queries;
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values({1, asked, width}, dtype, 1),
                                   sample_values({1, rows, width}, dtype, 2),
                                   sample_values({1, rows, width}, dtype, 3)};
              },
          .differentiable = {0, 1, 2}};
}
const RegisterSample attentions[] = {
    RegisterSample(attention("sequence_attention", {.heads = 2, .sequences = packed({0, 7, 8, 21})}, 18)),
    RegisterSample(attention("sequence_attention of one length", {.heads = 2, .sequences = packed({0, 5, 10})}, 16)),
    RegisterSample(attention("sequence_attention of one length, one query",
                             {.heads = 2, .sequences = packed({0, 5, 10, 15}), .queries = 1}, 16)),
    RegisterSample(
        attention("sequence_attention of heads of 8, packed", {.heads = 2, .sequences = packed({0, 7, 8, 75})}, 16)),
    RegisterSample(
        attention("sequence_attention of heads of 8, padded", {.heads = 2, .sequences = padded({5, 1, 6}, 7)}, 16)),
    RegisterSample(attention("sequence_attention of heads of 8, one query of padded ones",
                             {.heads = 2, .sequences = padded({5, 1, 6}, 7), .queries = 1}, 16)),
    RegisterSample(attention(
        "sequence_attention of heads of 8, packed, dropout",
        {.heads = 2, .sequences = packed({0, 7, 8, 13}), .dropout = 0.3, .stream = stream, .positions = 10}, 16)),
    RegisterSample(attention(
        "sequence_attention of heads of 8, padded, dropout",
        {.heads = 2, .sequences = padded({5, 1, 8}, 8), .dropout = 0.3, .stream = stream, .positions = 10}, 16)),
    RegisterSample(attention("sequence_attention, padded", {.heads = 2, .sequences = padded({5, 1, 6}, 7)}, 6)),
    RegisterSample(
        attention("sequence_attention, one query", {.heads = 2, .sequences = packed({0, 7, 8}), .queries = 1}, 6)),
    RegisterSample(
        attention("sequence_attention, several blocks of queries", {.heads = 1, .sequences = packed({0, 3, 166})}, 3)),
    RegisterSample(
        attention("sequence_attention, window", {.heads = 2, .sequences = packed({0, 70, 75, 76}), .window = 3}, 10)),
    RegisterSample(attention("sequence_attention, window of several tiles, padded",
                             {.heads = 3, .sequences = padded({141, 3}, 143), .window = 65}, 15)),
    RegisterSample(attention("sequence_attention, window, dropout",
                             {.heads = 3,
                              .sequences = packed({0, 4, 19, 21}),
                              .window = 2,
                              .scale = 0.7,
                              .dropout = 0.3,
                              .stream = stream,
                              .positions = 20},
                             9)),
    RegisterSample(attention(
        "sequence_attention, dropout",
        {.heads = 3, .sequences = packed({0, 4, 9, 11}), .dropout = 0.3, .stream = stream, .positions = 10}, 9))};

const RegisterSample dropouts({.name = "dropout of sequences",
                               .op = bound(Dropout{.p = 0.4, .stream = stream, .sequences = packed({0, 3, 4, 11})}),
                               .inputs =
                                   [](DType dtype) {
                                     return std::vector{sample_values({1, 11, 5}, dtype, 1)};
                                   },
                               .differentiable = {0}});

template <class Op>
OpSample classifier(std::string name, Op op, std::int64_t rows, std::int64_t classes, bool with_bias) {
  constexpr bool frozen = std::is_same_v<Op, FrozenLinearCrossEntropy>;
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                std::vector<std::int64_t> labels;
                for (std::int64_t i = 0; i < rows; ++i) labels.push_back(i % 3 == 1 ? -100 : i * 7 % classes);
                const DType parameters = compute_type(dtype);
                return std::vector{
                    sample_values({rows, 2}, dtype, 1), sample_values({classes, 2}, parameters, 2, -0.5, 0.5),
                    with_bias ? sample_values({classes}, parameters, 3) : Tensor(), whole_numbers(labels, {rows})};
              },
          .differentiable = frozen      ? InputSet{0}
                            : with_bias ? InputSet{0, 1, 2}
                                        : InputSet{0, 1},
          .weight = 1};
}
using Trained = LinearCrossEntropy;
using Frozen = FrozenLinearCrossEntropy;
const RegisterSample classifiers[] = {
    RegisterSample(classifier("linear_cross_entropy", Trained{}, 8, 11, true)),
    RegisterSample(classifier("linear_cross_entropy, smoothed, no bias", Trained{.label_smoothing = 0.1}, 7, 5, false)),
    RegisterSample(
        classifier("linear_cross_entropy, soft cap", Trained{.label_smoothing = 0.1, .soft_cap = 1.5}, 8, 11, true)),
    RegisterSample(classifier("linear_cross_entropy, several blocks of rows", Trained{}, 1100, 3, true)),
    RegisterSample(classifier("frozen_linear_cross_entropy", Frozen{{.soft_cap = 1.5}}, 8, 11, true)),
    RegisterSample(classifier("frozen_linear_cross_entropy, several blocks of rows", Frozen{}, 1600, 3, false))};

const RegisterSample means[] = {
    RegisterSample({.name = "sequence_mean",
                    .op = bound(SequenceMean{.sequences = padded({2, 4, 1}, 4)}),
                    .inputs =
                        [](DType dtype) {
                          return std::vector{sample_values({1, 12, 5}, dtype, 1)};
                        },
                    .differentiable = {0}}),
    RegisterSample({.name = "l2_normalize",
                    .op = bound(L2Normalize{}),
                    .inputs =
                        [](DType dtype) {
                          return std::vector{sample_values({4, 7}, dtype, 1)};
                        },
                    .differentiable = {0}}),
    RegisterSample(
        {.name = "span_cross_entropy",
         .op = bound(SpanCrossEntropy{.sequences = packed({0, 4, 5, 9})}),
         .inputs =
             [](DType dtype) {
               return std::vector{sample_values({1, 9, 2}, dtype, 1), whole_numbers({1, 3, 0, 1, -1, 2}, {3, 2})};
             },
         .differentiable = {0}}),
    RegisterSample(
        {.name = "binary_cross_entropy, weighted",
         .op = bound(BinaryCrossEntropy{.positive_weights = {0.5, 2, 1, 4, 3}}),
         .inputs =
             [](DType dtype) {
               return std::vector{sample_values({3, 5}, dtype, 1), sample_values({3, 5}, compute_type(dtype), 2, 0, 1)};
             },
         .differentiable = {0}}),
    RegisterSample(
        {.name = "binary_cross_entropy",
         .op = bound(BinaryCrossEntropy{}),
         .inputs =
             [](DType dtype) {
               return std::vector{sample_values({3, 5}, dtype, 1), sample_values({3, 5}, compute_type(dtype), 2, 0, 1)};
             },
         .differentiable = {0}})};

}  // namespace
}  // namespace lacuna
