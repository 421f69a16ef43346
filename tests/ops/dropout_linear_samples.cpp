#include "ops/products/dropout_linear.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample sample(std::string name, double p, const Shape& x, std::int64_t outputs) {
  return {.name = std::move(name),
          .op = bound(DropoutLinear{.p = p, .stream = {.seed = 7, .step = 3, .site = 11}}),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values(x, dtype, 1),
                                   sample_values({outputs, x.back()}, compute_type(dtype), 2, -0.5, 0.5)};
              },
          .differentiable = InputSet{0, 1},
          .weight = DropoutLinear::weight};
}

const RegisterSample samples[] = {RegisterSample(sample("dropout_linear", 0.3, {3, 5, 7}, 4)),
                                  RegisterSample(sample("dropout_linear, p 0", 0, {13, 9}, 5)),
                                  RegisterSample(sample("dropout_linear, several blocks", 0.2, {1300, 2, 3}, 2))};

}  // namespace
}  // namespace lacuna
