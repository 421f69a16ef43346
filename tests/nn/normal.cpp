// Normal numbers for initial values.
#include "core/parallel.h"
#include "nn/init.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>

using namespace lacuna;

namespace {

/// Number i of the stream, by Box and Muller's formula in f64 and the standard library's functions.
double expected(RandomStream stream, std::int64_t i, double bound) {
  const auto drawn = [&](std::int64_t pair, bool second) {
    const auto bits = stream.draw(static_cast<std::uint64_t>(pair));
    const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(bits[0]) + 1.0) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(bits[1]) * 0x1p-32;
    return radius * (second ? std::sin(angle) : std::cos(angle));
  };
  double value = drawn(i / 2, i % 2 == 1);
  while (std::abs(value) > bound) {
    ++stream.step;
    value = drawn(i, false);
  }
  return value;
}

}  // namespace

TEST_CASE("normal numbers are those of the formula, to the bit, in every type, size and number of threads") {
  const RandomStream stream{.seed = 3, .step = 0, .site = 77};
  for (const std::int64_t count : {1, 511, 512, 513, 200'001}) {
    for (const double deviation : {1.0, 0.02, 3.7e-6}) {
      const double bound = deviation == 1 ? 2 : std::numeric_limits<double>::infinity();
      const Init init = deviation == 1 ? init::truncated_normal(1) : init::normal(deviation);
      const auto made = [&](DType dtype) { return Tensor::empty({count}, dtype, Device::cpu); };
      const Tensor f32 = made(DType::f32), again = made(DType::f32), f64 = made(DType::f64);
      init(f32, stream);
      init(f64, stream);
      const ThreadCountScope one(1);
      init(again, stream);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const double value = expected(stream, i, bound) * deviation;
        wrong += f64.data<const double>()[i] != value || f32.data<const float>()[i] != static_cast<float>(value) ||
                 again.data<const float>()[i] != static_cast<float>(value);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("normal numbers have mean 0, deviation 1, and the tails of the normal distribution") {
  const Tensor x = Tensor::empty({1 << 20}, DType::f32, Device::cpu);
  init::normal(1)(x, {.seed = 1, .step = 0, .site = 5});
  double sum = 0, squares = 0;
  std::int64_t beyond = 0;
  for (const double value : x.to_vector()) {
    sum += value;
    squares += value * value;
    beyond += std::abs(value) > 3;
  }
  const auto count = static_cast<double>(x.count());
  CHECK(std::abs(sum / count) < 0.004);
  CHECK(std::abs(squares / count - 1) < 0.006);
  CHECK(std::abs(static_cast<double>(beyond) / count - 0.0027) < 0.0003);
}
