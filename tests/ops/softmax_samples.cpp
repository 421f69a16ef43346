#include "ops/curves/softmax.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample over_last_axis(std::string name, std::shared_ptr<const Operation> op, Shape shape) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = [shape](DType dtype) { return std::vector{sample_values(shape, dtype, 1, -4, 4)}; },
          .differentiable = {0}};
}

const RegisterSample scores(over_last_axis("softmax of scores", bound(Softmax{}), {2, 3, 7, 7}));
const RegisterSample many_rows(over_last_axis("softmax of many rows", bound(Softmax{}), {700, 31}));
const RegisterSample log_softmax(over_last_axis("log_softmax", bound(LogSoftmax{}), {5, 11}));

}  // namespace
}  // namespace lacuna
