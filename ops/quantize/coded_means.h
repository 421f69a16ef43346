// The means of a rotated tensor's channels, as they are held behind its codes.
#pragma once

#include "ops/quantize/affine.h"
#include "ops/quantize/hadamard_codes.h"

#include <cstddef>
#include <span>

namespace lacuna::quant {

/// They lie behind all else; in 8 bits, dithered by a key of their own. Their shape is means_shape's.
inline QuantizedTensor codes_of_means(const QuantizedTensor& codes) {
  const Shape shape = means_shape(codes.shape, codes.coding);
  const QuantConfig coding = least_error(8, {});
  const std::int64_t own = coded_bytes(shape, coding), all = codes.bytes.count();
  return {coding, shape, DType::f32, codes.bytes.reshape({all, 1}).leading(all - own, all).reshape({own}), ~codes.key};
}

/// As f32 [samples, C] holds them; empty where none are kept.
inline std::span<const float> numbers_of(const Tensor& means) {
  if (means.count() == 0) return {};
  return {means.data<float>(), static_cast<std::size_t>(means.count())};
}

}  // namespace lacuna::quant
