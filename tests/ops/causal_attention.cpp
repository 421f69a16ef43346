#include "ops/attention/causal_attention.h"

#include "autograd/tape.h"
#include "core/error.h"
#include "core/parallel.h"
#include "ops/attention/normed_rotary.h"
#include "ops/attention/sequence_attention.h"
#include "ops/products/linear.h"
#include "tests/ops/op_run.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

namespace lacuna {
namespace {

/// The definition, without dropout and padding, for one head of one sequence at a time.
std::vector<double> by_definition(const CausalAttention& op, const std::array<Tensor, 3>& inputs) {
  const Sequences& keys = *op.sequences;
  const Sequences& queries = op.queries == nullptr ? keys : *op.queries;
  const std::vector<double> q = inputs[0].to_vector(), k = inputs[1].to_vector(), v = inputs[2].to_vector();
  const std::int64_t d = inputs[1].shape().back() / op.kv_heads;
  std::vector<double> y(q.size());
  const auto at = [&](const std::vector<double>& of, std::int64_t row, std::int64_t heads, std::int64_t head,
                      std::int64_t c) { return of[static_cast<std::size_t>((row * heads + head) * d + c)]; };
  for (std::int64_t n = 0; n < keys.count(); ++n)
    for (std::int64_t i = 0; i < queries.length(n); ++i)
      for (std::int64_t h = 0; h < op.heads; ++h) {
        const std::int64_t query = keys.length(n) - queries.length(n) + i, kv = h / (op.heads / op.kv_heads);
        double total = 0;
        std::vector<double> sums(static_cast<std::size_t>(d));
        for (std::int64_t j = 0; j < std::min(query + 1 + op.ahead, keys.length(n)); ++j) {
          if (op.window > 0 && query - j >= op.window) continue;
          double score = 0;
          for (std::int64_t c = 0; c < d; ++c)
            score += at(q, queries.begin(n) + i, op.heads, h, c) * at(k, keys.begin(n) + j, op.kv_heads, kv, c);
          score *= op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(d));
          if (op.soft_cap > 0) score = op.soft_cap * std::tanh(score / op.soft_cap);
          if (!op.alibi.empty() && !op.rounds_alibi)
            score += op.alibi[static_cast<std::size_t>(h)] * static_cast<double>(j - query);
          if (op.rounds_alibi) {
            const auto slope = static_cast<float>(op.alibi[static_cast<std::size_t>(h)]),
                       key = static_cast<float>(bf16(static_cast<float>(j)));
            score += static_cast<float>(bf16(slope * key)) / std::sqrt(static_cast<double>(d));
          }
          const double p = std::exp(score);
          total += p;
          for (std::int64_t c = 0; c < d; ++c)
            sums[static_cast<std::size_t>(c)] += p * at(v, keys.begin(n) + j, op.kv_heads, kv, c);
        }
        for (std::int64_t c = 0; c < d; ++c)
          y[static_cast<std::size_t>(((queries.begin(n) + i) * op.heads + h) * d + c)] =
              sums[static_cast<std::size_t>(c)] / total;
      }
  return y;
}

std::array<Tensor, 3> inputs_of(const CausalAttention& op, std::int64_t d, DType dtype) {
  const std::int64_t rows = op.sequences->rows(), asked = (op.queries == nullptr ? op.sequences : op.queries)->rows();
  return {sample_values({1, asked, op.heads * d}, dtype, 1), sample_values({1, rows, op.kv_heads * d}, dtype, 2),
          sample_values({1, rows, op.kv_heads * d}, dtype, 3)};
}
template <class Op>
Tensor output_of(const Op& op, std::span<const Tensor> inputs) {
  std::vector<Tensor> extra_outputs;
  return op.forward(inputs, extra_outputs);
}
SequencesPtr packed(const std::vector<std::int64_t>& offsets) { return Sequences::packed(offsets); }

}  // namespace

TEST_CASE("causal attention is what its definition says") {
  const struct {
    const char* name;
    std::int64_t head_dim;
    CausalAttention op;
  } cases[] = {
      {"plain", 7, {.heads = 2, .kv_heads = 2, .sequences = packed({0, 5, 6, 19})}},
      {"grouped, long", 64, {.heads = 6, .kv_heads = 2, .sequences = packed({0, 1, 300})}},
      {"window", 16, {.heads = 2, .kv_heads = 1, .sequences = packed({0, 260, 290}), .window = 50}},
      {"window of one key", 8, {.heads = 1, .kv_heads = 1, .sequences = packed({0, 90}), .window = 1}},
      {"window, tokens ahead",
       16,
       {.heads = 2, .kv_heads = 1, .sequences = packed({0, 260, 290}), .window = 50, .ahead = 49}},
      {"last queries, tokens ahead",
       8,
       {.heads = 4, .kv_heads = 2, .sequences = packed({0, 90, 100}), .queries = packed({0, 20, 21}), .ahead = 7}},
      {"slopes, tokens ahead",
       12,
       {.heads = 3, .kv_heads = 3, .sequences = packed({0, 70}), .ahead = 3, .alibi = alibi_slopes(3)}},
      {"soft cap", 32, {.heads = 4, .kv_heads = 2, .sequences = packed({0, 100}), .scale = 1, .soft_cap = 5}},
      {"slopes", 12, {.heads = 6, .kv_heads = 6, .sequences = packed({0, 70, 150}), .alibi = alibi_slopes(6)}},
      {"slopes in bf16",
       12,
       {.heads = 6, .kv_heads = 2, .sequences = packed({0, 7, 300}), .alibi = alibi_slopes(6), .rounds_alibi = true}},
      {"last queries, window",
       8,
       {.heads = 4, .kv_heads = 2, .sequences = packed({0, 90, 100}), .queries = packed({0, 20, 21}), .window = 33}},
      {"one query",
       80,
       {.heads = 71,
        .kv_heads = 1,
        .sequences = packed({0, 500}),
        .queries = packed({0, 1}),
        .alibi = alibi_slopes(71)}},
      {"one query of heads of its own",
       70,
       {.heads = 3,
        .kv_heads = 3,
        .sequences = packed({0, 1, 130, 147}),
        .queries = packed({0, 1, 2, 3}),
        .window = 100,
        .soft_cap = 4,
        .alibi = alibi_slopes(3)}},
      {"one query, window",
       8,
       {.heads = 4, .kv_heads = 2, .sequences = packed({0, 99}), .queries = packed({0, 1}), .window = 37}},
  };
  for (const int count : {1, 3}) {
    const ThreadCountScope scope(count);
    for (const auto& one : cases) {
      CAPTURE(one.name);
      const auto exact = inputs_of(one.op, one.head_dim, DType::f64);
      const std::vector<double> expected = by_definition(one.op, exact);
      const Tensor wanted = Tensor::from(std::span<const double>(expected), exact[0].shape());
      CHECK(relative_error(output_of(one.op, exact), wanted) < 1e-12);
      CHECK(relative_error(output_of(one.op, inputs_of(one.op, one.head_dim, DType::f32)), wanted) < 1e-5);
    }
  }
}

TEST_CASE("causal attention of the last token is attention of one query to all keys") {
  const CausalAttention causal{.heads = 2, .kv_heads = 2, .sequences = packed({0, 40}), .queries = packed({0, 1})};
  const auto inputs = inputs_of(causal, 8, DType::f64);
  const SequenceAttention all{.heads = 2, .sequences = packed({0, 40}), .queries = 1};
  CHECK(relative_error(output_of(causal, inputs), output_of(all, inputs)) < 1e-12);
}

TEST_CASE("a token's output does not depend on tokens after it, to the bit") {
  const CausalAttention op{.heads = 2, .kv_heads = 1, .sequences = packed({0, 130})};
  auto inputs = inputs_of(op, 16, DType::f32);
  const std::vector<double> before = output_of(op, inputs).to_vector();
  for (const std::size_t i : {0, 1, 2}) {
    const std::int64_t last = inputs[i].rows() - 1;
    inputs[i].row_range(last, last + 1).fill(3);
  }
  const std::vector<double> after = output_of(op, inputs).to_vector();
  for (std::size_t i = 0; i < before.size() - 32; ++i) REQUIRE(before[i] == after[i]);
}

TEST_CASE("a cache gives the outputs of one pass") {
  CausalAttention op{.heads = 4, .kv_heads = 2, .sequences = packed({0, 60}), .window = 25};
  const auto inputs = inputs_of(op, 8, DType::f64);
  const Tensor whole = output_of(op, inputs);
  for (const std::int64_t rows : {1, 7}) {
    op.queries = packed({0, rows});
    const Tensor q = inputs[0].row_range(60 - rows, 60).reshape({1, rows, 32});
    CHECK(relative_error(output_of(op, std::array{q, inputs[1], inputs[2]}), whole.row_range(60 - rows, 60)) < 1e-12);
  }
}

TEST_CASE("behind norms of heads and a rotation, what attention reads is made again from the norms' inputs") {
  constexpr std::int64_t heads = 4, kv_heads = 2, d = 8, rows = 37, width = 24;
  const SequencesPtr sequences = packed({0, 20, rows});
  const RotaryTablePtr table = make_rotary_table(rotary_frequencies(d, 100, rows, rows), rows, Device::cpu);
  const Tensor x = sample_values({1, rows, width}, DType::f32, 1), norm = sample_values({d}, DType::f32, 2, 0.5, 1.5);
  std::int64_t bytes = 0;  // that are live behind forward
  const auto gradients = [&](std::string_view policy_name) {
    const std::unique_ptr<MemoryPolicy> policy = make_policy(policy_name);
    Tape tape(*policy);
    std::vector<Variable> weights;
    Variable y;
    {
      const Recording recording(tape);
      const auto projected = [&](std::int64_t columns) {
        weights.emplace_back(sample_values({columns, width}, DType::f32, static_cast<std::uint32_t>(weights.size())),
                             true);
        return apply(Linear{}, Variable(x), weights.back(), Variable());
      };
      const auto rotated = [&](std::int64_t count) {
        return apply(
            NormedRotary{.norm = {.heads = count}, .rotary = {.heads = count, .table = table, .sequences = sequences}},
            projected(count * d), Variable(norm));
      };
      Variable q = rotated(heads), k = rotated(kv_heads), v = projected(kv_heads * d);
      y = apply(CausalAttention{.heads = heads, .kv_heads = kv_heads, .sequences = sequences}, std::move(q),
                std::move(k), std::move(v));
    }
    tape.report();  // decides what is held
    bytes = ledger(Device::cpu).total();
    const Tensor dy = projection(y.tensor());
    tape.backward({{std::move(y), dy}});
    std::vector<Tensor> all;
    for (const Variable& weight : weights) all.push_back(weight.grad());
    return all;
  };
  const std::vector<Tensor> kept = gradients("keep");
  std::int64_t expected = bytes - rows * (heads + kv_heads) * d * 4;
  for (const Tensor& gradient : kept) expected += gradient.bytes();  // they live on
  const std::vector<Tensor> exact = gradients("exact");
  CHECK(bytes == expected);
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(same_bits(kept[i], exact[i]));
}

TEST_CASE("causal attention refuses what does not fit") {
  const auto run = [](const CausalAttention& op, std::int64_t head_dim) {
    output_of(op, inputs_of(op, head_dim, DType::f32));
  };
  CHECK_THROWS_WITH_AS(run({.heads = 3, .kv_heads = 2, .sequences = packed({0, 4})}, 2),
                       doctest::Contains("multiple of kv_heads"), Error);
  CHECK_THROWS_WITH_AS(run({.sequences = packed({0, 4}), .queries = packed({0, 5})}, 2),
                       doctest::Contains("5 queries for 4 keys"), Error);
  CHECK_THROWS_WITH_AS(run({.heads = 2, .kv_heads = 2, .sequences = packed({0, 4}), .alibi = {1}}, 2),
                       doctest::Contains("a slope for each of 2 heads"), Error);
  CHECK_THROWS_WITH_AS(run({.sequences = packed({0, 4}), .dropout = 0.1, .positions = 3}, 2),
                       doctest::Contains("4 positions"), Error);
}

TEST_CASE("ALiBi's slopes of 6 heads") {
  const std::vector<double> expected{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
  CHECK(alibi_slopes(6) == expected);
}

}  // namespace lacuna
