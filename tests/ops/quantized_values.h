// Values, and tensors quantized and dequantized, for tests.
#pragma once

#include "core/random.h"
#include "ops/quantize/quantize.h"

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

namespace lacuna::test {

inline Tensor tensor_of(const std::vector<float>& values, DType dtype = DType::f32) {
  return Tensor::from(std::span<const float>(values), {static_cast<std::int64_t>(values.size())}, dtype);
}

/// Standard normal values (Box and Muller).
inline std::vector<float> normal_values(std::int64_t count, std::uint64_t seed) {
  const RandomStream stream{.seed = seed, .step = 0, .site = 0};
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sqrt(-2 * std::log(1 - stream.uniform(2 * i))) *
                std::cos(2 * std::numbers::pi_v<float> * stream.uniform(2 * i + 1));
  return values;
}

inline std::vector<double> dequantized(const quant::QuantizedTensor& quantized, std::int64_t begin, std::int64_t end) {
  const Tensor out = Tensor::empty({end - begin}, quantized.dtype, Device::cpu);
  quant::dequantize(quantized, begin, end, out);
  return out.to_vector();
}
inline std::vector<double> dequantized(const quant::QuantizedTensor& quantized) {
  return dequantized(quantized, 0, quantized.shape.count());
}

inline std::vector<std::uint8_t> bytes_of(const quant::QuantizedTensor& quantized) {
  const auto* const data = quantized.bytes.data<std::uint8_t>();
  return {data, data + quantized.bytes.count()};
}

}  // namespace lacuna::test
