#include "core/parallel.h"
#include "ops/kernels/conv_kernels.h"
#include "ops/kernels/winograd_filter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

// Bounds of the errors: at 512 channels they come to 4.3e-6 and 1.2e-6, at 16 to a fifth of that.
constexpr double large_tiles = 1e-5, small_tiles = 2e-6;

/// The matrix of a transform, [to][from].
template <class F>
std::vector<std::vector<double>> matrix_of() {
  std::vector<std::vector<double>> matrix(F::to, std::vector<double>(F::from));
  for (std::size_t j = 0; j < F::from; ++j) {
    double unit[F::from] = {}, out[F::to];
    unit[j] = 1;
    F{}(unit, out);
    for (std::size_t i = 0; i < F::to; ++i) matrix[i][j] = out[i];
  }
  return matrix;
}

/// The largest difference between Aᵀ[(G g) ⊙ (Bᵀ d)] and the filter it stands for, over all unit g and d.
template <class Filter>
double error_of_identity() {
  const auto input = matrix_of<typename Filter::Input>(), weight = matrix_of<typename Filter::Weight>(),
             output = matrix_of<typename Filter::Output>();
  double worst = 0;
  for (std::size_t y = 0; y < Filter::results; ++y)
    for (std::size_t k = 0; k < 3; ++k)
      for (std::size_t d = 0; d < Filter::tile; ++d) {
        double sum = 0;
        for (std::size_t place = 0; place < Filter::tile; ++place)
          sum += output[y][place] * weight[place][k] * input[place][d];
        worst = std::max(worst, std::abs(sum - (y + k == d ? 1 : 0)));
      }
  return worst;
}

template <class F, class Back>
void check_transposed() {
  const auto matrix = matrix_of<F>(), back = matrix_of<Back>();
  for (std::size_t i = 0; i < F::to; ++i)
    for (std::size_t j = 0; j < F::from; ++j) CHECK(matrix[i][j] == doctest::Approx(back[j][i]).epsilon(1e-12));
}

Tensor normal(const Shape& shape, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (float& value : values) value = distribution(engine);
  return Tensor::from(values, shape);
}

/// The largest difference, relative to the largest number of `exact`.
double error_of(const Tensor& computed, const Tensor& exact) {
  const std::vector<double> a = computed.to_vector(), b = exact.to_vector();
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}

struct Errors {
  double forward, gradient_of_input, gradient_of_weight;
};

/// Of normally distributed operands, against plain sums in double. `add`: to gradients that are there.
Errors errors_of(std::int64_t channels, std::int64_t outputs, std::int64_t height, std::int64_t width,
                 bool add = false) {
  const ConvShape s{2, height, width, channels, outputs, 3, 3, 1, 1, 1};
  const Shape in{s.images, height, width, channels}, out{s.images, height, width, outputs},
      taps{outputs, channels, 3, 3};
  const Tensor x = normal(in, 1), weight = normal(taps, 2), dy = normal(out, 3);
  const Tensor x64 = x.to(DType::f64), weight64 = weight.to(DType::f64), dy64 = dy.to(DType::f64);
  const auto both = [](const Shape& shape) {
    const Tensor there = normal(shape, 4);
    return std::pair{there, there.to(DType::f64)};
  };
  const auto [y, y64] = both(out);
  const auto [dx, dx64] = both(in);
  const auto [dweight, dweight64] = both(taps);
  winograd::forward(s, x, weight, {}, y);
  direct::forward(s, x64, weight64, {}, y64);
  winograd::gradient_of_input(s, dy, weight, dx, add);
  direct::gradient_of_input(s, dy64, weight64, dx64, add);
  winograd::gradient_of_weight(s, x, dy, dweight, add);
  direct::gradient_of_weight(s, x64, dy64, dweight64, add);
  return {error_of(y, y64), error_of(dx, dx64), error_of(dweight, dweight64)};
}

void check_errors(const Errors& errors, double bound) {
  CAPTURE(errors.forward);
  CAPTURE(errors.gradient_of_input);
  CAPTURE(errors.gradient_of_weight);
  CHECK(errors.forward < bound);
  CHECK(errors.gradient_of_input < bound);
  CHECK(errors.gradient_of_weight < bound);
}

TEST_CASE("the transforms of minimal filtering make up the filter") {
  CHECK(error_of_identity<winograd::Filter<2>>() == 0);
  CHECK(error_of_identity<winograd::Filter<4>>() < 1e-6);  // what rounding the constants to f32 leaves
}

TEST_CASE("the transforms that go backward are the transposes") {
  check_transposed<winograd::Filter<2>::Weight, winograd::Filter<2>::WeightBack>();
  check_transposed<winograd::Filter<2>::Output, winograd::Filter<2>::OutputBack>();
  check_transposed<winograd::Filter<4>::Weight, winograd::Filter<4>::WeightBack>();
  check_transposed<winograd::Filter<4>::Output, winograd::Filter<4>::OutputBack>();
}

TEST_CASE("Winograd's convolutions stay close to plain sums") {
  for (const std::int64_t channels : {16, 64, 256, 512}) {
    CAPTURE(channels);
    check_errors(errors_of(channels, channels, 8, 8), large_tiles);
    check_errors(errors_of(channels, channels, 2, 9), small_tiles);  // which waste less of two rows
  }
}

TEST_CASE("tiles that reach over the border, unequal channels") {
  check_errors(errors_of(32, 16, 7, 13), large_tiles);
  check_errors(errors_of(16, 48, 14, 5), large_tiles);
  check_errors(errors_of(16, 32, 1, 3), small_tiles);
}

TEST_CASE("many blocks of tiles for a thread, and gradients that are added to") {
  const int before = threads();
  for (const int count : {1, 2, 3}) {
    CAPTURE(count);
    set_threads(count);
    for (const bool add : {false, true}) {
      CAPTURE(add);
      check_errors(errors_of(16, 16, 62, 64, add), large_tiles);    // 512 tiles, 24 at once or more
      check_errors(errors_of(160, 112, 40, 39, add), large_tiles);  // 200 tiles, 192 at once for all threads together
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace lacuna
