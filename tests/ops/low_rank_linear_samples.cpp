#include "ops/low_rank_linear.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample sample(std::string name, const Shape& x, std::int64_t outputs, std::int64_t rank, bool biased) {
  using Op = LowRankLinear;
  InputSet differentiable{Op::x, Op::weight, Op::z, Op::up};
  if (biased) differentiable.insert(Op::bias);
  return {.name = std::move(name),
          .op = bound(Op{.scale = 0.75}),
          .inputs =
              [=](DType dtype) {
                const DType parameters = compute_type(dtype);
                return std::vector{sample_values(x, dtype, 1), sample_values({outputs, x.back()}, parameters, 2),
                                   biased ? sample_values({outputs}, parameters, 3) : Tensor(),
                                   sample_values(x.with_back(rank), dtype, 4),
                                   sample_values({outputs, rank}, parameters, 5)};
              },
          .differentiable = differentiable};
}

const RegisterSample samples[] = {RegisterSample(sample("low_rank_linear", {3, 5, 7}, 9, 2, true)),
                                  RegisterSample(sample("low_rank_linear, no bias", {13, 4}, 3, 1, false)),
                                  RegisterSample(sample("low_rank_linear, wide rank", {6, 5}, 4, 16, true))};

}  // namespace
}  // namespace lacuna
