#include "ops/dropout.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample random(std::string name, std::shared_ptr<const Operation> op, Shape shape) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = [shape](DType dtype) { return std::vector{sample_values(shape, dtype, 1)}; },
          .differentiable = {0}};
}

constexpr RandomStream stream{.seed = 7, .step = 3, .site = 11};

const RegisterSample dropout(random("dropout", bound(Dropout{.p = 0.3, .stream = stream}), {3, 5, 7}));
const RegisterSample many(random("dropout of many elements", bound(Dropout{.p = 0.1, .stream = stream}), {211, 103}));
const RegisterSample nothing(random("dropout with p 0", bound(Dropout{.p = 0, .stream = stream}), {3, 5}));
const RegisterSample drop_path(random("drop_path", bound(DropPath{.p = 0.4, .stream = stream}), {9, 3, 5}));

}  // namespace
}  // namespace lacuna
