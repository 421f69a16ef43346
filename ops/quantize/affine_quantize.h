// Values to affine codes on the CPU.
#pragma once

#include "ops/quantize/quantizer.h"

namespace lacuna::quant {

/// Writes `quantized.bytes` from x; shape, type and config have been checked. `known` is null if the ranges are to be
/// observed first.
void quantize_affine(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known);

}  // namespace lacuna::quant
