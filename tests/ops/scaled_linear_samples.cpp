#include "ops/products/scaled_linear.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample sample(std::string name, const Shape& x, std::int64_t outputs, bool biased) {
  InputSet differentiable{ScaledLinear::x, ScaledLinear::weight, ScaledLinear::scale};
  if (biased) differentiable.insert(ScaledLinear::bias);
  return {.name = std::move(name),
          .op = bound(ScaledLinear{}),
          .inputs =
              [=](DType dtype) {
                const DType parameters = compute_type(dtype);
                return std::vector{sample_values(x, dtype, 1), sample_values({outputs, x.back()}, parameters, 2),
                                   biased ? sample_values({outputs}, parameters, 3) : Tensor(),
                                   sample_values({outputs}, parameters, 4)};
              },
          .differentiable = differentiable,
          .weight = ScaledLinear::weight};
}

const RegisterSample samples[] = {RegisterSample(sample("scaled_linear", {3, 5, 7}, 9, true)),
                                  RegisterSample(sample("scaled_linear, no bias", {13, 4}, 3, false)),
                                  RegisterSample(sample("scaled_linear, one row", {1, 33}, 17, true))};

}  // namespace
}  // namespace lacuna
