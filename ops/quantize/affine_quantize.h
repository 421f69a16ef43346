// Values to affine codes: quantize() for every rounding but Rounding::hadamard.
#pragma once

#include "ops/quantize/quantize.h"

#include <span>

namespace lacuna::quant {

/// Ranges known before, and where the observed ranges go: both [groups]; `seen` may be empty.
struct KnownRanges {
  std::span<const Range> ranges;
  std::span<Range> seen;
};

/// Writes `quantized.bytes` from x; shape, type and config have been checked. `known` is null if the ranges are to be
/// observed first.
void quantize_affine(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known);

}  // namespace lacuna::quant
