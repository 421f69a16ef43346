// The choices that Mesa's paper compares: where ranges come from, which elements share one, how values are rounded.
#include "autograd/holders/holder.h"
#include "core/random.h"
#include "tests/ops/quantized_values.h"
#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {
namespace {

/// A tensor of one shape in several steps, held by `mesa` with given settings.
class MesaTensor {
 public:
  MesaTensor(const Shape& shape, Groups groups, const OptionValues& settings) : policy_(make_policy("mesa", settings)) {
    info_.op = Label("linear");
    info_.path = Label("block");
    info_.shape = shape;
    info_.bytes = shape.count() * 4;
    info_.need = Need::value;
    info_.groups = groups;
    info_.readers = {&reader_, 1};
  }
  /// The values that backward reads in step `step`. `pass`: of the tape.
  std::vector<double> read(const std::vector<float>& values, std::uint32_t step = 0, std::uint64_t pass = 0) {
    const RandomStateScope random({.seed = 1, .step = step});
    info_.pass = pass;
    const Hold hold = policy_->decide(info_);
    REQUIRE(hold.kind == Hold::quantize);
    const Tensor x = test::tensor_of(values).reshape(info_.shape);
    const quant::QuantizedTensor quantized = quantize(x, info_.key(), hold);
    bytes = quantized.bytes.bytes();
    const Tensor out = Tensor::empty(x.shape(), DType::f32, Device::cpu);
    quant::dequantize(quantized, 0, x.count(), out);
    return out.to_vector();
  }
  /// The ranges that go on to the next step, [groups, 2].
  std::vector<double> ranges() const {
    const auto state = policy_->state();
    return state.empty() ? std::vector<double>() : state.begin()->second.to_vector();
  }
  TensorFigures figures() const { return policy_->figures(); }

  std::int64_t bytes = 0;  // of the last step's

 private:
  Reader reader_{.op = Label("linear"), .kind = OpKind::linear, .path = {}, .need = Need::value};
  SavedTensorInfo info_{};
  std::unique_ptr<MemoryPolicy> policy_;
};

const Shape by_channels{4, 16, 128}, by_heads{4, 3, 16, 32};

std::vector<float> values_of(const Shape& shape, std::uint64_t seed = 3) {
  return test::normal_values(shape.count(), seed);
}

double largest_error(const std::vector<double>& read, const std::vector<float>& values, std::size_t begin = 0,
                     std::size_t end = std::string::npos) {
  double largest = 0;
  for (std::size_t i = begin; i < std::min(end, values.size()); ++i)
    largest = std::max(largest, std::abs(read[i] - static_cast<double>(values[i])));
  return largest;
}

/// A step of 8-bit codes at most, for a range of that width (docs/quantization.md).
double step_of(double range) { return 1.016 * range / 255; }

double range_of(const std::vector<float>& values, std::size_t begin = 0, std::size_t end = std::string::npos) {
  const auto [min, max] =
      std::minmax_element(values.begin() + static_cast<std::ptrdiff_t>(begin),
                          values.begin() + static_cast<std::ptrdiff_t>(std::min(end, values.size())));
  return static_cast<double>(*max - *min);
}

}  // namespace

TEST_CASE("mesa: stochastic rounding is unbiased and errs by a step at most, nearest by half a step and always alike") {
  const std::vector<float> values = values_of(by_channels);
  const double step = step_of(range_of(values));
  constexpr int draws = 400;
  const auto mean_error = [&](const char* rounding) {
    MesaTensor held(by_channels, Groups::run, {{"rounding", rounding}, {"groups", "tensor"}, {"decay", 0.0}});
    std::vector<double> sum(values.size());
    for (std::uint32_t draw = 0; draw < draws; ++draw) {
      const std::vector<double> read = held.read(values, draw);
      CHECK(largest_error(read, values) <= (rounding == std::string("nearest") ? 0.5 : 1) * step * 1.0001);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += (read[i] - static_cast<double>(values[i])) / draws;
    }
    double square = 0;
    for (const double error : sum) square += error * error / static_cast<double>(sum.size());
    return std::sqrt(square);
  };
  // A step's error has at most half a step of deviation; of nearest rounding √(1/12) of a step stays.
  CHECK(mean_error("stochastic") < 1.1 * 0.5 * step / std::sqrt(draws));
  CHECK(mean_error("nearest") > 0.25 * step);
}

TEST_CASE("mesa: groups: tensor takes one range for all elements") {
  for (const auto& [shape, groups] : {std::pair(by_channels, Groups::run), std::pair(by_heads, Groups::head)}) {
    const std::vector<float> values = values_of(shape);
    MesaTensor whole(shape, groups, {{"groups", "tensor"}}), parts(shape, groups, {});
    CHECK(largest_error(whole.read(values), values) <= step_of(range_of(values)));
    CHECK(whole.bytes == shape.count() + 4);
    CHECK(whole.ranges().size() == 2);
    parts.read(values);
    CHECK(parts.bytes > whole.bytes);
    CHECK(parts.ranges().size() > 2);
    REQUIRE(whole.figures().size() == 1);
    const std::map<std::string, double> figures = whole.figures().begin()->second;
    CHECK(figures.at("min") == whole.ranges()[0]);
    CHECK(figures.at("max") == whole.ranges()[1]);
    CHECK(figures.at("range") == doctest::Approx(range_of(values)));
  }
}

TEST_CASE("mesa: ranges: sample takes those of each sample, or of its heads, and carries nothing on") {
  for (const auto& [shape, kind, groups, parts] :
       {std::tuple(by_channels, Groups::run, "head", 4), std::tuple(by_heads, Groups::head, "head", 4 * 3),
        std::tuple(by_heads, Groups::head, "tensor", 4)}) {
    std::vector<float> values = values_of(shape);
    const std::size_t size = values.size() / static_cast<std::size_t>(parts);
    for (std::size_t i = 0; i < size; ++i) values[i] *= 1000;  // the first has a range of its own
    MesaTensor held(shape, kind, {{"ranges", "sample"}, {"groups", groups}});
    const std::vector<double> read = held.read(values);
    CHECK(held.bytes == shape.count() + 4 * parts);
    CHECK(held.ranges().empty());
    CHECK(held.figures().empty());
    for (std::size_t part = 0; part < static_cast<std::size_t>(parts); ++part)
      CHECK(largest_error(read, values, part * size, (part + 1) * size) <=
            step_of(range_of(values, part * size, (part + 1) * size)));
  }
}

TEST_CASE("mesa: symmetric ranges reach as far below zero as above, and cost what the values leave unused") {
  std::vector<float> values = values_of(by_channels);
  for (float& value : values) value = std::abs(value) + 1;  // nothing is below zero
  const double most = *std::max_element(values.begin(), values.end());
  MesaTensor symmetric(by_channels, Groups::run, {{"symmetric", true}, {"groups", "tensor"}}),
      other(by_channels, Groups::run, {{"groups", "tensor"}});
  const double error = largest_error(symmetric.read(values), values);
  CHECK(error <= step_of(2 * most));
  CHECK(symmetric.ranges() == std::vector<double>{-most, most});
  CHECK(error > 1.5 * largest_error(other.read(values), values));
  // Each step moves the estimate, which stays symmetric.
  for (float& value : values) value = -2 * value;
  symmetric.read(values, 1);
  const std::vector<double> moved = symmetric.ranges();
  CHECK(moved[1] == doctest::Approx(0.9 * most + 0.1 * 2 * most));
  CHECK(moved[0] == -moved[1]);
  // Columns that are too narrow to share a range are quantized by the whole tensor's.
  const Shape narrow{64, 16, 3};
  MesaTensor of_pixels(narrow, Groups::run, {{"symmetric", true}});
  of_pixels.read(values_of(narrow));
  CHECK(of_pixels.ranges().size() == 2);
  CHECK(of_pixels.ranges()[0] == -of_pixels.ranges()[1]);
}

TEST_CASE("mesa: decay says how much of an estimate stays") {
  const std::vector<float> before = values_of(by_channels, 1), values = values_of(by_channels, 2);
  std::vector<float> wider = values;
  for (float& value : wider) value *= 3;
  for (const double decay : {0.0, 0.9, 0.99, 0.999}) {
    CAPTURE(decay);
    MesaTensor held(by_channels, Groups::run, {{"decay", decay}, {"groups", "tensor"}});
    held.read(before);
    const std::vector<double> first = held.ranges();
    held.read(wider, 1);
    const auto [min, max] = std::minmax_element(wider.begin(), wider.end());
    CHECK(held.ranges()[0] == doctest::Approx(decay * first[0] + (1 - decay) * static_cast<double>(*min)));
    CHECK(held.ranges()[1] == doctest::Approx(decay * first[1] + (1 - decay) * static_cast<double>(*max)));
  }
}

TEST_CASE("mesa: words that are no choice, and choices that exclude each other, are refused") {
  for (const OptionValues& wrong : std::vector<OptionValues>{{{"ranges", "batch"}},
                                                             {{"groups", "channel"}},
                                                             {{"rounding", "up"}},
                                                             {{"rounding", ""}},
                                                             {{"ranges", "sample"}, {"symmetric", true}}}) {
    try {
      make_policy("mesa", wrong);
      FAIL("taken");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::input);
      test::check_says(std::string(error.what()), wrong.begin()->first);
    }
  }
}

TEST_CASE("mesa: a tensor that is quantized twice in a pass has the same codes, and its ranges move once") {
  MesaTensor once(by_channels, Groups::run, {}), twice(by_channels, Groups::run, {});
  for (const std::uint32_t step : {1, 2, 3}) {
    const std::vector<float> values = values_of(by_channels, step);
    const std::vector<double> expected = once.read(values, step, step);
    for (int time = 0; time < 2; ++time) CHECK(twice.read(values, step, step) == expected);
    CHECK(twice.ranges() == once.ranges());
  }
}

}  // namespace lacuna
