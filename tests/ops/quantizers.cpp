// Every registered quantizer keeps what its interface says of it.
#include "ops/quantize/quantizer.h"

#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lacuna {
namespace {

/// Calls `f(quantizer, config)` for each quantizer and number of bits that it takes.
template <class F>
void for_each_quantizer(const F& f) {
  for (const std::string& name : quant::quantizers().names())
    for (int bits = 1; bits <= 8; ++bits) {
      const quant::Quantizer& quantizer = *quant::quantizers().get(name);
      const quant::QuantConfig config{bits, {.size = quantizer.group_size(256)}, name};
      CAPTURE(name);
      CAPTURE(bits);
      if (quantizer.takes(config)) f(quantizer, config);
    }
}

double error_of(const std::vector<double>& got, const std::vector<float>& values) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += std::pow(got[i] - static_cast<double>(values[i]), 2);
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("quantizers: relative error, bytes, and whether codes depend on the key") {
  const std::vector<float> values = test::normal_values(1024 * 100, 6);
  const Tensor x = test::tensor_of(values);
  for_each_quantizer([&](const quant::Quantizer& quantizer, const quant::QuantConfig& config) {
    const quant::QuantizedTensor one = quant::quantize(x, config, 1), other = quant::quantize(x, config, 2);
    CHECK(one.bytes.bytes() == quant::quantized_bytes(x.shape(), config));
    CHECK((test::bytes_of(one) == test::bytes_of(other)) == !quantizer.draws());
    // A step that is wide beside the distribution is not hit evenly by its values.
    if (config.bits >= 3)
      CHECK(error_of(test::dequantized(one), values) ==
            doctest::Approx(quantizer.relative_error(config.bits)).epsilon(0.08));
  });
}

TEST_CASE("quantizers: those that say so are unbiased") {
  constexpr int keys = 400;
  const std::vector<float> values = test::normal_values(256, 9);
  const Tensor x = test::tensor_of(values);
  for_each_quantizer([&](const quant::Quantizer& quantizer, const quant::QuantConfig& config) {
    std::vector<double> mean(values.size());
    for (std::uint64_t key = 0; key < keys; ++key) {
      const std::vector<double> got = test::dequantized(quant::quantize(x, config, key));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += got[i] / keys;
    }
    const double scatter = error_of(test::dequantized(quant::quantize(x, config, 1)), values) / keys;
    if (quantizer.is_unbiased()) CHECK(error_of(mean, values) < 2 * scatter);
    if (!quantizer.draws()) CHECK(error_of(mean, values) > 100 * scatter);
  });
}

TEST_CASE("quantizers: the least error of those that are unbiased, and of those without draws") {
  for_each_quantizer([&](const quant::Quantizer& quantizer, const quant::QuantConfig& config) {
    const quant::Quantizer& least = quant::min_error_quantizer(config.bits);
    CHECK(least.is_unbiased());
    if (quantizer.is_unbiased()) CHECK(least.relative_error(config.bits) <= quantizer.relative_error(config.bits));
    CHECK(!quant::quantizer_of(quant::drawless_config(config.bits, {})).draws());
  });
  CHECK_THROWS_AS(quant::quantize(Tensor::zeros({8}, DType::f32, Device::cpu), {8, {}, "dithrd"}, 1), Error);
}

}  // namespace lacuna
