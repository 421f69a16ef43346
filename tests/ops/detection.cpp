// Losses of detection by hand, and what they refuse.
#include "autograd/tape.h"
#include "core/error.h"
#include "ops/detection/box_losses.h"
#include "tests/ops/op_run.h"
#include "tests/ops/op_sample.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lacuna {
namespace {

Tensor whole(const std::vector<std::int64_t>& values) {
  return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
}
Tensor floats(const std::vector<double>& values, const Shape& shape) {
  return Tensor::from(std::span<const double>(values), shape, DType::f32, Device::cpu);
}

}  // namespace

TEST_CASE("focal loss: a logit of 0 costs alpha, or 1 - alpha, of a quarter of log 2") {
  const std::vector<Tensor> inputs{floats({0, 0, 0, 0, 0, 0}, {3, 2}), whole({1, -1, -2}), floats({1, 10, 100}, {3})};
  const double expected = (0.25 + 0.75 + 10 * 1.5) * 0.25 * std::log(2.0);
  CHECK(FocalLoss{}.forward(inputs).item() == doctest::Approx(expected).epsilon(1e-6));
  CHECK_THROWS_AS(FocalLoss{}.forward(std::vector<Tensor>{inputs[0], whole({2, 0, 0}), inputs[2]}), Error);
  CHECK_THROWS_AS(FocalLoss{}.forward(std::vector<Tensor>{inputs[0], whole({0, 0}), inputs[2]}), Error);
}

TEST_CASE("smooth L1 of rows: no rows cost nothing, and a row that is not there is refused") {
  const Tensor x = floats({0, 0, 0, 4}, {2, 2});
  std::vector<Tensor> extra;
  const RowSmoothL1 op{.shape = {2, 2}, .beta = 1};
  CHECK(op.forward(std::vector<Tensor>{x, whole({1}), floats({0.5, 1}, {1, 2}), floats({2}, {1})}, extra).item() ==
        doctest::Approx(2 * (0.125 + 2.5)));
  CHECK(op.forward(std::vector<Tensor>{x, whole({}), Tensor::zeros({0, 2}, DType::f32, Device::cpu),
                                       Tensor::zeros({0}, DType::f32, Device::cpu)},
                   extra)
            .item() == 0);
  CHECK_THROWS_AS(op.forward(std::vector<Tensor>{x, whole({2}), floats({0, 0}, {1, 2}), floats({1}, {1})}, extra),
                  Error);
}

}  // namespace lacuna
