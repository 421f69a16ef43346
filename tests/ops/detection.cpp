// Losses of detection by hand, and what they refuse.
#include "autograd/tape.h"
#include "core/error.h"
#include "ops/detection/box_losses.h"
#include "ops/detection/roi_align.h"
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

TEST_CASE("RoIAlign of a slope is the slope at the middle of each bin, and a box that is none is refused") {
  std::vector<double> slope;
  for (int h = 0; h < 8; ++h)
    for (int w = 0; w < 8; ++w) slope.push_back(10 * h + w);
  const Tensor map = floats(slope, {1, 8, 8, 1});
  const RoiAlign op{.shapes = {{1, 8, 8, 1}}, .scales = {0.5}, .bins = 2};
  const auto aligned = [&](const std::vector<double>& box, const std::vector<std::int64_t>& place) {
    return op.forward(std::vector<Tensor>{floats(box, {1, 4}), whole(place).reshape({1, 2}), map}).to_vector();
  };
  const std::vector<double> found = aligned({2, 4, 10, 8}, {0, 0});  // 1 to 5 across, 2 to 4 down
  const std::vector<double> expected{27, 29, 37, 39};                // bins of 2 across and 1 down
  for (std::size_t i = 0; i < 4; ++i) CHECK(found[i] == doctest::Approx(expected[i]));
  CHECK_THROWS_AS(aligned({0, 0, NAN, 4}, {0, 0}), Error);
  CHECK_THROWS_AS(aligned({0, 0, 4, 4}, {1, 0}), Error);
  CHECK_THROWS_AS(aligned({0, 0, 4, 4}, {0, 1}), Error);
}

}  // namespace lacuna
