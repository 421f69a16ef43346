#include "ops/curves/activation.h"
#include "tests/ops/op_run.h"

#include <doctest/doctest.h>

#include <vector>

namespace lacuna {
namespace {

using Values = std::vector<double>;

Values slopes(const std::shared_ptr<const Operation>& curve, const Values& places, DType dtype) {
  const Shape shape{std::ssize(places)};
  const Values ones(places.size(), 1);
  const Result result = forward(*curve, {Tensor::from(std::span<const double>(places), shape, dtype)});
  return backward(*curve, result, {Tensor::from(std::span<const double>(ones), shape, dtype)}, {0}).front().to_vector();
}

}  // namespace

TEST_CASE("hard-swish, hard-sigmoid and ReLU6 have PyTorch's slopes at their kinks") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    CAPTURE(name_of(dtype));
    CHECK(slopes(bound(HardSwish{}), {-3, 0, 3, 4}, dtype) == Values{0, 0.5, 1, 1});
    CHECK(slopes(bound(HardSigmoid{}), {-3, 3, -4, 4}, dtype) == Values{0, 0, 0, 0});
    CHECK(slopes(bound(Relu6{}), {0, 6, -1, 1, 7}, dtype) == Values{0, 0, 0, 1, 0});
  }
}

}  // namespace lacuna
