// From values to affine codes: what `encode` does but for Rounding::hadamard.
#pragma once

#include "ops/quantize/affine.h"

#include <span>

namespace lacuna::quant {

/// Ranges known beforehand, and where those go that were found: [groups] both; `seen` may be empty.
struct KnownRanges {
  std::span<const Range> ranges;
  std::span<Range> seen;
};

/// Writes `codes.bytes`; everything has been checked, also that x has their shape and type. `known`: null where x is to
/// be measured.
void encode_affine(const Tensor& x, const QuantizedTensor& codes, const KnownRanges* known);

}  // namespace lacuna::quant
