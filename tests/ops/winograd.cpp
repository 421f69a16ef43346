#include "core/parallel.h"
#include "ops/convolution/conv_algorithms.h"
#include "ops/convolution/winograd_filter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

// Bounds on the error. At 512 channels it is 4.3e-6 and 1.2e-6, at 16 a fifth of that.
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

/// The largest error of Aᵀ[(G g) ⊙ (Bᵀ d)] over all unit filters g and inputs d.
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

/// The largest error, relative to the largest number of `exact`.
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

/// Errors for normally distributed operands against direct sums in f64. `add`: accumulate into existing gradients.
/// `type`: of images.
Errors errors_of(std::int64_t channels, std::int64_t outputs, std::int64_t height, std::int64_t width, bool add = false,
                 DType type = DType::f32) {
  const ConvShape s{2, height, width, channels, outputs, 3, 3, 1, 1, 1};
  const Shape in{s.images, height, width, channels}, out{s.images, height, width, outputs},
      taps{outputs, channels, 3, 3};
  const Tensor x = normal(in, 1).to(type), weight = normal(taps, 2), dy = normal(out, 3).to(type);
  const Tensor x64 = x.to(DType::f64), weight64 = weight.to(DType::f64), dy64 = dy.to(DType::f64);
  const auto both = [](const Shape& shape, DType own) {
    const Tensor there = normal(shape, 4).to(own);
    return std::pair{there, there.to(DType::f64)};
  };
  const auto [y, y64] = both(out, type);
  const auto [dx, dx64] = both(in, type);
  const auto [dweight, dweight64] = both(taps, DType::f32);
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

TEST_CASE("winograd: the transforms compose to the filter") {
  CHECK(error_of_identity<winograd::Filter<2>>() == 0);
  CHECK(error_of_identity<winograd::Filter<4>>() < 1e-6);  // the constants are rounded to f32
}

TEST_CASE("winograd: backward transforms are transposes") {
  check_transposed<winograd::Filter<2>::Weight, winograd::Filter<2>::WeightBack>();
  check_transposed<winograd::Filter<2>::Output, winograd::Filter<2>::OutputBack>();
  check_transposed<winograd::Filter<4>::Weight, winograd::Filter<4>::WeightBack>();
  check_transposed<winograd::Filter<4>::Output, winograd::Filter<4>::OutputBack>();
}

TEST_CASE("winograd: close to direct sums") {
  for (const std::int64_t channels : {16, 64, 256, 512}) {
    CAPTURE(channels);
    check_errors(errors_of(channels, channels, 8, 8), large_tiles);
    check_errors(errors_of(channels, channels, 2, 9), small_tiles);  // less waste with two rows
  }
}

TEST_CASE("winograd: tiles across the border, unequal channels") {
  check_errors(errors_of(32, 16, 7, 13), large_tiles);
  check_errors(errors_of(16, 48, 14, 5), large_tiles);
  check_errors(errors_of(16, 32, 1, 3), small_tiles);
}

TEST_CASE("winograd: channels that fill no panel") {
  for (const bool add : {false, true}) {
    check_errors(errors_of(36, 43, 7, 13, add), large_tiles);
    check_errors(errors_of(64, 819, 5, 9, add), large_tiles);
    check_errors(errors_of(45, 40, 2, 9, add), small_tiles);
    check_errors(errors_of(37, 60, 62, 64, add), large_tiles);  // 512 tiles
    check_errors(errors_of(150, 124, 40, 39, add), large_tiles);
  }
  const Errors half = errors_of(36, 43, 7, 13, true, DType::bf16);
  CHECK(half.forward < 0x1p-8);
  CHECK(half.gradient_of_input < 0x1p-8);
  CHECK(half.gradient_of_weight < large_tiles);
}

TEST_CASE("winograd: images of bf16 are rounded once") {
  for (const bool add : {false, true})
    for (const Errors& errors : {errors_of(64, 64, 8, 8, add, DType::bf16), errors_of(16, 48, 14, 5, add, DType::bf16),
                                 errors_of(16, 32, 1, 3, add, DType::bf16)}) {
      CHECK(errors.forward < 0x1p-8);
      CHECK(errors.gradient_of_input < 0x1p-8);
      CHECK(errors.gradient_of_weight < large_tiles);
    }
}

TEST_CASE("winograd: many tile blocks per thread, accumulated gradients") {
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
