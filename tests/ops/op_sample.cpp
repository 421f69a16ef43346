#include "tests/ops/op_sample.h"

#include "core/random.h"

#include <cmath>

namespace lacuna {
namespace {

template <class F>
Tensor drawn(const Shape& shape, DType dtype, std::uint32_t site, F&& value) {
  const RandomStream stream{.seed = 1, .step = 0, .site = site};
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<double>(stream.uniform(i)));
  return Tensor::from(std::span<const double>(values), shape, dtype);
}

}  // namespace

std::vector<OpSample>& op_samples() {
  static std::vector<OpSample> samples;
  return samples;
}

RegisterSample::RegisterSample(OpSample sample) { op_samples().push_back(std::move(sample)); }

Tensor sample_values(const Shape& shape, DType dtype, std::uint32_t site, double low, double high) {
  return drawn(shape, dtype, site, [&](double u) { return low + u * (high - low); });
}

Tensor sample_values_off_zero(const Shape& shape, DType dtype, std::uint32_t site) {
  return drawn(shape, dtype, site, [](double u) { return std::copysign(0.1 + 1.9 * std::abs(2 * u - 1), u - 0.5); });
}

}  // namespace lacuna
