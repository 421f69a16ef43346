#include "ops/attention/attention.h"
#include "tests/ops/op_sample.h"

#include <limits>

namespace lacuna {
namespace {

/// Sample with qkv alone, or with a bias and key lengths where these are given.
OpSample packed(std::string name, Attention op, const Shape& qkv, const Shape& bias = {},
                std::vector<std::int64_t> lengths = {}) {
  const bool biased = bias.rank() > 0;
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                return std::vector{
                    sample_values(qkv, dtype, 1), biased ? sample_values(bias, dtype, 2) : Tensor(),
                    lengths.empty() ? Tensor() : Tensor::from(std::span<const std::int64_t>(lengths), {qkv[0]})};
              },
          .differentiable = biased ? InputSet{0, 1} : InputSet{0}};
}

OpSample cross(std::string name, CrossAttention op, const Shape& q, const Shape& k, const Shape& bias = {},
               std::vector<std::int64_t> lengths = {}) {
  const bool biased = bias.rank() > 0;
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                return std::vector{
                    sample_values(q, dtype, 1), sample_values(k, dtype, 2), sample_values(k, dtype, 3),
                    biased ? sample_values(bias, dtype, 4) : Tensor(),
                    lengths.empty() ? Tensor() : Tensor::from(std::span<const std::int64_t>(lengths), {q[0]})};
              },
          .differentiable = biased ? InputSet{0, 1, 2, 3} : InputSet{0, 1, 2}};
}

constexpr RandomStream stream{3, 5, 7};

const RegisterSample samples[] = {
    RegisterSample(packed("attention", {.heads = 2}, {2, 7, 18})),
    RegisterSample(packed("attention, scaled", {.heads = 3, .scale = 0.7}, {1, 5, 63})),
    RegisterSample(packed("attention, wide heads", {.heads = 1, .scale = 0.05}, {1, 13, 111})),
    RegisterSample(packed("attention, one query", {.heads = 2, .queries = 1}, {2, 9, 24})),
    RegisterSample(packed("attention, some queries", {.heads = 1, .queries = 3}, {3, 5, 12})),
    RegisterSample(packed("attention, several blocks of queries", {.heads = 1}, {1, 163, 3})),
    RegisterSample(packed("attention, one token", {.heads = 2}, {3, 1, 12})),
    RegisterSample(packed("attention, bias shared by the batch", {.heads = 2}, {5, 7, 18}, {1, 2, 7, 7})),
    RegisterSample(packed("attention, bias per window", {.heads = 3}, {6, 5, 27}, {2, 3, 5, 5})),
    RegisterSample(packed("attention, bias per sample and key", {.heads = 3}, {4, 5, 27}, {4, 1, 1, 5})),
    RegisterSample(
        packed("attention, bias per head and some queries", {.heads = 3, .queries = 2}, {4, 5, 27}, {1, 3, 2, 5})),
    RegisterSample(
        packed("attention, bias and several blocks of queries", {.heads = 1}, {1, 163, 3}, {1, 1, 163, 163})),
    RegisterSample(packed("attention, key lengths", {.heads = 2}, {4, 7, 18}, {}, {7, 3, 0, 1})),
    RegisterSample(packed("attention, dropout", {.heads = 2, .dropout = 0.3, .stream = stream}, {3, 7, 18})),
    RegisterSample(
        packed("attention of heads of 8, dropout", {.heads = 2, .dropout = 0.3, .stream = stream}, {3, 7, 48})),
    RegisterSample(packed("attention, all options", {.heads = 2, .queries = 6, .dropout = 0.3, .stream = stream},
                          {4, 7, 18}, {2, 2, 6, 7}, {7, 3, 0, 5})),
    RegisterSample(cross("cross_attention", {.heads = 2}, {3, 5, 6}, {3, 7, 6})),
    RegisterSample(cross("cross_attention, more queries than keys", {.heads = 1, .scale = 0.3}, {2, 19, 5}, {2, 2, 5})),
    RegisterSample(cross("cross_attention, several blocks of queries", {.heads = 1}, {1, 61, 3}, {1, 401, 3})),
    RegisterSample(cross("cross_attention, bias", {.heads = 2}, {4, 3, 6}, {4, 5, 6}, {4, 2, 3, 5})),
    RegisterSample(cross("cross_attention, all options", {.heads = 3, .dropout = 0.4, .stream = stream}, {4, 3, 27},
                         {4, 5, 27}, {2, 3, 1, 5}, {0, 5, 2, 1}))};

}  // namespace
}  // namespace lacuna
