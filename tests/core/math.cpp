// The float versions of the elementary functions against the double ones, over their whole range.
#include "core/math.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace lacuna {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Points in [low, high], denser near zero, where most arguments lie.
std::vector<float> grid(float low, float high) {
  std::vector<float> points{0.0F, -0.0F};
  constexpr int steps = 200000;
  for (int i = 0; i <= steps; ++i) {
    const float u = static_cast<float>(i) / steps;
    points.push_back(low + (high - low) * u);
    points.push_back((u < 0.5F ? low : high) * (2 * u - 1) * (2 * u - 1) * (2 * u - 1));
  }
  return points;
}

/// Largest |f(x) - exact(x)|, in units of `unit(exact(x))`.
template <class F, class Exact, class Unit>
double worst(const std::vector<float>& points, F f, Exact exact, Unit unit) {
  double error = 0;
  for (const float x : points) {
    const double expected = exact(static_cast<double>(x));
    error = std::max(error, std::abs(static_cast<double>(f(x)) - expected) / unit(expected));
  }
  return error;
}

double one(double) { return 1; }
/// Distance between neighbouring floats at y.
double float_spacing(double y) { return std::ldexp(1.0, std::max(std::ilogb(y), -126) - 23); }

}  // namespace

TEST_CASE("exp is within 2 units in the last place") {
  const auto f = [](float x) { return math::exp(x); };
  const auto exact = [](double x) { return std::exp(x); };
  CHECK(worst(grid(-87.33F, 88.72F), f, exact, float_spacing) < 2);
  CHECK(math::exp(0.0F) == 1.0F);
  CHECK(math::exp(-88.0F) == 0.0F);
  CHECK(math::exp(-infinity) == 0.0F);
  CHECK(math::exp(88.722F) < infinity);
  CHECK(math::exp(88.73F) == infinity);
  CHECK(math::exp(infinity) == infinity);
  CHECK(std::isnan(math::exp(nan)));
  CHECK(math::exp(std::numeric_limits<float>::denorm_min()) == 1.0F);
  CHECK(math::exp(std::numeric_limits<float>::lowest()) == 0.0F);
  CHECK(math::exp(std::numeric_limits<float>::max()) == infinity);
}

TEST_CASE("tanh is within 1e-7, and within 3 units in the last place") {
  const auto f = [](float x) { return math::tanh(x); };
  const auto exact = [](double x) { return std::tanh(x); };
  CHECK(worst(grid(-12, 12), f, exact, one) < 1e-7);
  CHECK(worst(grid(-12, 12), f, exact, float_spacing) < 3);
  CHECK(math::tanh(infinity) == 1.0F);
  CHECK(math::tanh(-infinity) == -1.0F);
  CHECK(math::tanh(1e30F) == 1.0F);
  CHECK(math::tanh(1e-40F) == 1e-40F);
  CHECK(std::isnan(math::tanh(nan)));
}

TEST_CASE("the normal distribution and its density are within 1.5e-7") {
  const auto distribution = [](float x) { return math::normal(x).cdf; };
  const auto density = [](float x) { return math::normal(x).pdf; };
  const auto exact_distribution = [](double x) { return math::normal(x).cdf; };
  const auto exact_density = [](double x) { return math::normal(x).pdf; };
  CHECK(worst(grid(-14, 14), distribution, exact_distribution, one) < 1.5e-7);
  CHECK(worst(grid(-14, 14), density, exact_density, one) < 1.5e-7);
  const auto itself = [](double y) { return y; };
  CHECK(worst(grid(-12, 0), distribution, exact_distribution, itself) < 1e-5);
  CHECK(math::normal(infinity).cdf == 1.0F);
  CHECK(math::normal(-infinity).cdf == 0.0F);
  CHECK(math::normal(1e30F).pdf == 0.0F);
  CHECK(math::normal(1e-40F).cdf == doctest::Approx(0.5));
  CHECK(std::isnan(math::normal(nan).cdf));
}

TEST_CASE("x times the normal distribution, which is GELU, is within 1e-7 or 2.5 units in the last place") {
  const auto gelu = [](float x) { return x * math::normal(x).cdf; };
  const auto exact = [](double x) { return x * math::normal(x).cdf; };
  CHECK(worst(grid(-14, 14), gelu, exact, [](double y) { return std::max(1e-7, 2.5 * float_spacing(y)); }) < 1);
}

TEST_CASE("sigmoid is within 2e-7 and has its limits") {
  const auto f = [](float x) { return math::sigmoid(x); };
  const auto exact = [](double x) { return math::sigmoid(x); };
  CHECK(worst(grid(-80, 80), f, exact, one) < 2e-7);
  CHECK(math::sigmoid(-infinity) == 0.0F);
  CHECK(math::sigmoid(infinity) == 1.0F);
  CHECK(std::isnan(math::sigmoid(nan)));
}

}  // namespace lacuna
