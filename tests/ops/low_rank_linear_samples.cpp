#include "ops/products/low_rank_linear.h"
#include "tests/ops/op_sample.h"

#include <array>

namespace lacuna {
namespace {

/// `pairs`: rank, rows and first column of each.
OpSample sample(std::string name, const Shape& x, std::int64_t outputs, bool biased,
                const std::vector<std::array<std::int64_t, 3>>& pairs) {
  using Op = LowRankLinear;
  Op op{.scale = 0.75};
  InputSet differentiable{Op::x, Op::weight};
  if (biased) differentiable.insert(Op::bias);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    op.first[i] = pairs[i][2];
    op.columns[i] = pairs[i][1];
    differentiable.insert(Op::z0 + static_cast<int>(2 * i));
    differentiable.insert(Op::up0 + static_cast<int>(2 * i));
  }
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                const DType parameters = compute_type(dtype);
                std::vector inputs{sample_values(x, dtype, 1), sample_values({outputs, x.back()}, parameters, 2),
                                   biased ? sample_values({outputs}, parameters, 3) : Tensor()};
                for (std::uint32_t i = 0; i < pairs.size(); ++i) {
                  const auto [rank, rows, first] = pairs[i];
                  inputs.push_back(sample_values(x.with_back(rank), dtype, 4 + 2 * i));
                  inputs.push_back(sample_values({rows, rank}, parameters, 5 + 2 * i));
                }
                inputs.resize(3 + 2 * Op::pairs);
                return inputs;
              },
          .differentiable = differentiable,
          .weight = Op::weight};
}

const RegisterSample samples[] = {
    RegisterSample(sample("low_rank_linear", {3, 5, 7}, 9, true, {{2, 9, 0}})),
    RegisterSample(sample("low_rank_linear, no bias", {13, 4}, 3, false, {{1, 3, 0}})),
    RegisterSample(sample("low_rank_linear, wide rank", {6, 5}, 4, true, {{16, 4, 0}})),
    RegisterSample(sample("low_rank_linear, two parts", {4, 3, 5}, 9, true, {{2, 3, 0}, {2, 3, 6}})),
    RegisterSample(sample("low_rank_linear, three parts", {7, 5}, 12, false, {{2, 4, 0}, {3, 4, 4}, {2, 4, 8}}))};

}  // namespace
}  // namespace lacuna
