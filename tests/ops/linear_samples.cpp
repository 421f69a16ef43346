#include "ops/products/linear.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample linear_sample(std::string name, const Shape& x, std::int64_t features, bool with_bias,
                       bool with_residual = false) {
  InputSet differentiable{Linear::x, Linear::weight};
  if (with_bias) differentiable.insert(Linear::bias);
  if (with_residual) differentiable.insert(Linear::residual);
  return {.name = std::move(name),
          .op = bound(Linear{}),
          .inputs =
              [=](DType dtype) {
                const DType parameters = compute_type(dtype);
                std::vector inputs{sample_values(x, dtype, 1),
                                   sample_values({features, x.back()}, parameters, 2, -0.5, 0.5),
                                   with_bias ? sample_values({features}, parameters, 3) : Tensor()};
                if (with_residual) inputs.push_back(sample_values(x.with_back(features), dtype, 4));
                return inputs;
              },
          .differentiable = differentiable,
          .weight = 1};
}

const RegisterSample with_bias(linear_sample("linear bias", {3, 5, 7}, 11, true));
const RegisterSample without_bias(linear_sample("linear no bias", {13, 9}, 5, false));
const RegisterSample residual(linear_sample("linear residual", {3, 5, 7}, 11, true, true));
const RegisterSample residual_alone(linear_sample("linear residual no bias", {13, 9}, 5, false, true));
const RegisterSample one_output(linear_sample("linear one output", {4, 17}, 1, true));
const RegisterSample many_rows(linear_sample("linear several runs of rows", {2600, 1}, 1, true));

}  // namespace
}  // namespace lacuna
