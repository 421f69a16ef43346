// Slopes of activation functions in two bits.
#include "ops/quantize/slope.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

namespace lacuna::quant {
namespace {

double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double gelu_slope(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2 + x * density(x); }
double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

struct Curve {
  std::string name;
  const SlopeLevels* levels;
  std::function<double(double)> slope;
  double error;  // of the slope, relative, over N(0, 1)
};
const std::vector<Curve> curves{{"gelu", &gelu_slopes, gelu_slope, 0.1325}, {"silu", &silu_slopes, silu_slope, 0.1442}};

}  // namespace

TEST_CASE("slopes: four levels of least squared error over normal values") {
  for (const Curve& curve : curves) {
    INFO(curve.name);
    const SlopeLevels& levels = *curve.levels;
    const auto level_of = [&](double x) {
      std::size_t level = 0;
      while (level < 3 && x >= static_cast<double>(levels.thresholds[level])) ++level;
      return level;
    };
    const auto slope_at = [&](std::size_t level) { return curve.slope(static_cast<double>(levels.points[level])); };
    double error = 0, square = 0, weights[4] = {}, means[4] = {};
    constexpr double step = 1e-4;
    for (int i = -80000; i < 80000; ++i) {
      const double x = step * i;
      const double weight = density(x) * step, slope = curve.slope(x);
      const std::size_t level = level_of(x);
      weights[level] += weight;
      means[level] += weight * slope;
      error += weight * std::pow(slope - slope_at(level), 2);
      square += weight * slope * slope;
    }
    for (std::size_t level = 0; level < 4; ++level)
      CHECK(slope_at(level) == doctest::Approx(means[level] / weights[level]).epsilon(2e-3));
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(curve.slope(static_cast<double>(levels.thresholds[i])) ==
            doctest::Approx((slope_at(i) + slope_at(i + 1)) / 2).epsilon(2e-3));
    CHECK(std::sqrt(error / square) == doctest::Approx(curve.error).epsilon(2e-3));
  }
}

TEST_CASE("slopes: every length, range and type") {
  const SlopeLevels& levels = gelu_slopes;
  const std::vector<float> values{-3, -0.5F, -0.2F, 0, 0.3F, 0.6F, 0.499F, -0.498F, 9};
  const std::vector<std::size_t> expected{0, 0, 1, 2, 2, 3, 3, 1, 3};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (std::int64_t length = 1; length <= 70; ++length) {
      std::vector<float> repeated;
      for (std::int64_t i = 0; i < length; ++i) repeated.push_back(values[static_cast<std::size_t>(i) % values.size()]);
      const Tensor bytes = quantize_slopes(Tensor::from(std::span<const float>(repeated), {length}).to(dtype), levels);
      CHECK(bytes.count() == (length + 3) / 4);
      for (const std::int64_t begin : {std::int64_t{0}, length / 3}) {
        const Tensor out = Tensor::empty({length - begin}, dtype, Device::cpu);
        dequantize_slopes(bytes, levels, begin, length, out);
        const std::vector<double> decoded = out.to_vector();
        for (std::int64_t i = begin; i < length; ++i) {
          const std::size_t place = static_cast<std::size_t>(i) % values.size();
          if (dtype == DType::bf16 && place == 6) continue;  // 0.499 is 0.5 there, -0.498 is not -0.499
          CHECK(decoded[static_cast<std::size_t>(i - begin)] ==
                doctest::Approx(static_cast<double>(levels.points[expected[place]])).epsilon(4e-3));
        }
      }
    }
  }
}

}  // namespace lacuna::quant
