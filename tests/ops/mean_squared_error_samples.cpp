#include "ops/losses/mean_squared_error.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample with_shape(std::string name, const Shape& shape) {
  return {.name = std::move(name),
          .op = bound(MeanSquaredError{}),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values(shape, dtype, 1), sample_values(shape, compute_type(dtype), 2)};
              },
          .differentiable = {0}};
}

const RegisterSample vector(with_shape("mean_squared_error", {7}));
const RegisterSample matrix(with_shape("mean_squared_error of a matrix", {70, 31}));

}  // namespace
}  // namespace lacuna
