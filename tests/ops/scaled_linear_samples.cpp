#include "ops/products/scaled_linear.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample sample(std::string name, const Shape& x, std::int64_t outputs, bool biased, bool with_residual = false) {
  InputSet differentiable{ScaledLinear::x, ScaledLinear::weight, ScaledLinear::scale};
  if (biased) differentiable.insert(ScaledLinear::bias);
  if (with_residual) differentiable.insert(ScaledLinear::residual);
  return {.name = std::move(name),
          .op = bound(ScaledLinear{}),
          .inputs =
              [=](DType dtype) {
                const DType parameters = compute_type(dtype);
                return std::vector{sample_values(x, dtype, 1), sample_values({outputs, x.back()}, parameters, 2),
                                   biased ? sample_values({outputs}, parameters, 3) : Tensor(),
                                   sample_values({outputs}, parameters, 4),
                                   with_residual ? sample_values(x.with_back(outputs), dtype, 5) : Tensor()};
              },
          .differentiable = differentiable,
          .weight = ScaledLinear::weight};
}

const RegisterSample samples[] = {RegisterSample(sample("scaled_linear", {3, 5, 7}, 9, true)),
                                  RegisterSample(sample("scaled_linear, residual", {3, 5, 7}, 9, true, true)),
                                  RegisterSample(sample("scaled_linear, no bias", {13, 4}, 3, false)),
                                  RegisterSample(sample("scaled_linear, one row", {1, 33}, 17, true))};

}  // namespace
}  // namespace lacuna
