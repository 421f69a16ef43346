// The key of a quantized tensor as kernels on cuda take it.
#pragma once

#include "ops/cuda/saved_values.h"
#include "ops/quantize/draws.h"
#include "ops/quantize/quantize.h"

namespace lacuna::quant {

inline cuda::MixedKey mixed_key_of(const QuantizedTensor& quantized) {
  if (!quantized.drawn.defined()) return {.value = mixed_key(quantized.key)};
  return {.drawn = reinterpret_cast<const std::uint64_t*>(quantized.drawn.raw())};
}

}  // namespace lacuna::quant
