#include "ops/attention/heads.h"
#include "ops/products/matmul.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample matmul_sample(const std::string& name, MatMul op, const Shape& a, const Shape& b) {
  return {.name = name,
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values(a, dtype, 1), sample_values(b, dtype, 2)};
              },
          .differentiable = {0, 1}};
}

template <class Op>
OpSample heads_sample(const std::string& name, Op op, const Shape& x) {
  return {.name = name,
          .op = bound(op),
          .inputs = [=](DType dtype) { return std::vector{sample_values(x, dtype, 1)}; },
          .differentiable = {0}};
}

const RegisterSample plain(matmul_sample("matmul", {}, {3, 5, 7}, {3, 7, 2}));
const RegisterSample one_matrix(matmul_sample("matmul one matrix", {}, {3, 4}, {4, 5}));
const RegisterSample transposed(matmul_sample("matmul transposed and scaled", {.transpose_b = true, .scale = 0.3},
                                              {2, 3, 5, 7}, {2, 3, 9, 7}));
const RegisterSample scaled(matmul_sample("matmul scaled", {.scale = -2}, {1, 2, 3, 4}, {1, 2, 4, 3}));

const RegisterSample split_query(heads_sample("split_heads q", SplitHeads{.heads = 2}, {3, 5, 18}));
const RegisterSample split_value(heads_sample("split_heads v", SplitHeads{.heads = 3, .part = 2}, {2, 3, 27}));
const RegisterSample split_single(heads_sample("split_heads one part", SplitHeads{.heads = 2, .parts = 1}, {2, 5, 6}));
const RegisterSample merge(heads_sample("merge_heads", MergeHeads{.heads = 3}, {2, 3, 5, 7}));

}  // namespace
}  // namespace lacuna
