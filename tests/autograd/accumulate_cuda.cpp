// Sums and differences of gradients on cuda, on the stand-in, against the CPU's.
#include "autograd/accumulate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace lacuna {
namespace {

Tensor numbers(const Shape& shape, DType dtype, std::uint32_t site) {
  const RandomStream stream{.seed = 1, .step = 0, .site = site};
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(values, shape, dtype);
}

}  // namespace

TEST_CASE("cuda: sums and differences of gradients are the CPU's") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor a = numbers({7, 131}, dtype, 1), b = numbers({7, 131}, dtype, 2);
    const Tensor there = a.to(Device::cuda), other = b.to(Device::cuda);
    CHECK(sum(there, other).to_vector() == sum(a, b).to_vector());
    CHECK(difference(there, other).to_vector() == difference(a, b).to_vector());
    CHECK(std::abs(squared_difference(there, other) - squared_difference(a, b)) < 1e-9);
    CHECK(std::abs(squared_difference(there, {}) - squared_difference(a, {})) < 1e-9);
    const std::vector<double> rows = squared_differences(there, other, 7), expected = squared_differences(a, b, 7);
    for (std::size_t i = 0; i < rows.size(); ++i) CHECK(std::abs(rows[i] - expected[i]) < 1e-9);
    const RandomStream stream{.seed = 3, .step = 1, .site = 9};
    CHECK(with_random_signs(there, stream).to_vector() == with_random_signs(a, stream).to_vector());
  }
}

}  // namespace lacuna
