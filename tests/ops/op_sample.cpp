#include "tests/ops/op_sample.h"

#include "core/coded/maps.h"
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

RegisterSample::RegisterSample(OpSample sample) {
  for (const WeightCode code : {WeightCode::bf16, WeightCode::int8, WeightCode::nf4, WeightCode::int4}) {
    if (sample.weight < 0) break;
    OpSample coded = sample;
    coded.name += " " + std::string(name_of(code)) + " weight";
    coded.differentiable = {};
    for (int i = 0; i < 16; ++i)
      if (i != sample.weight && sample.differentiable.contains(i)) coded.differentiable.insert(i);
    coded.inputs = [inputs = sample.inputs, index = static_cast<std::size_t>(sample.weight), code](DType dtype) {
      std::vector<Tensor> all = inputs(dtype);
      const Shape shape = all[index].shape();
      const WeightFormat format = code == WeightCode::bf16   ? WeightFormat{}
                                  : code == WeightCode::int8 ? format_in_8_bits(shape.count() / shape.front())
                                                             : format_in_4_bits(code);
      const Tensor weight = Tensor::coded(shape, format, Device::cpu);
      weight.copy_from(all[index]);
      all[index] = weight;
      return all;
    };
    op_samples().push_back(std::move(coded));
  }
  op_samples().push_back(std::move(sample));
}

Tensor sample_values(const Shape& shape, DType dtype, std::uint32_t site, double low, double high) {
  return drawn(shape, dtype, site, [&](double u) { return low + u * (high - low); });
}

Tensor sample_values_off_zero(const Shape& shape, DType dtype, std::uint32_t site) {
  return drawn(shape, dtype, site, [](double u) { return std::copysign(0.1 + 1.9 * std::abs(2 * u - 1), u - 0.5); });
}

}  // namespace lacuna
