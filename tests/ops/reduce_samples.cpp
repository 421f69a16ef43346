#include "ops/arithmetic/reduce.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

template <class Op>
OpSample over_all(const std::string& name, Shape shape) {
  return {.name = name,
          .op = bound(Op{.shape = shape}),
          .inputs = [shape](DType dtype) { return std::vector{sample_values(shape, dtype, 1, -1, 3)}; },
          .differentiable = {0}};
}

const RegisterSample sum(over_all<Sum>("sum", {3, 5, 7}));
const RegisterSample mean(over_all<Mean>("mean", {3, 5, 7}));
const RegisterSample mean_of_many(over_all<Mean>("mean of many elements", {61, 1009}));

}  // namespace
}  // namespace lacuna
