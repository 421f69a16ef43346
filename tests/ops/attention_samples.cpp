#include "ops/attention.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample attention_sample(std::string name, Attention op, const Shape& qkv) {
  return {.name = std::move(name),
          .op = bound(op),
          .inputs = [=](DType dtype) { return std::vector{sample_values(qkv, dtype, 1)}; },
          .differentiable = {0}};
}

const RegisterSample plain(attention_sample("attention", {.heads = 2}, {2, 7, 18}));
const RegisterSample scaled(attention_sample("attention scaled", {.heads = 3, .scale = 0.7}, {1, 5, 63}));
const RegisterSample wide(attention_sample("attention wide heads", {.heads = 1, .scale = 0.05}, {1, 13, 111}));
const RegisterSample one_query(attention_sample("attention one query", {.heads = 2, .queries = 1}, {2, 9, 24}));
const RegisterSample some_queries(attention_sample("attention some queries", {.heads = 1, .queries = 3}, {3, 5, 12}));
const RegisterSample long_input(attention_sample("attention several blocks of queries", {.heads = 1}, {1, 163, 3}));
const RegisterSample one_token(attention_sample("attention one token", {.heads = 2}, {3, 1, 12}));

}  // namespace
}  // namespace lacuna
