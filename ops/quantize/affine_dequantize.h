// Affine codes to values on the CPU.
#pragma once

#include "ops/quantize/quantize.h"

namespace lacuna::quant {

/// dequantize() of checked arguments.
void dequantize_affine(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out);
/// block_dequantizer(); affine codes need no scratch per block.
BlockDequantizer affine_block_dequantizer(const QuantizedTensor& quantized);

}  // namespace lacuna::quant
