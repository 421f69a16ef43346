#include "ops/products/linear.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample linear_sample(std::string name, const Shape& x, std::int64_t features, bool with_bias) {
  return {.name = std::move(name),
          .op = bound(Linear{}),
          .inputs =
              [=](DType dtype) {
                const DType parameters = compute_type(dtype);
                return std::vector{sample_values(x, dtype, 1),
                                   sample_values({features, x.back()}, parameters, 2, -0.5, 0.5),
                                   with_bias ? sample_values({features}, parameters, 3) : Tensor()};
              },
          .differentiable = with_bias ? InputSet{0, 1, 2} : InputSet{0, 1},
          .weight = 1};
}

const RegisterSample with_bias(linear_sample("linear bias", {3, 5, 7}, 11, true));
const RegisterSample without_bias(linear_sample("linear no bias", {13, 9}, 5, false));
const RegisterSample one_output(linear_sample("linear one output", {4, 17}, 1, true));
const RegisterSample many_rows(linear_sample("linear several runs of rows", {2600, 1}, 1, true));

}  // namespace
}  // namespace lacuna
