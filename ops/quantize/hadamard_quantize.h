// Quantization to 1 to 3 bits after a randomized Hadamard transform, on the CPU.
//
// Each group is centred, its signs are flipped at random, and it is multiplied by an orthonormal Hadamard matrix. The
// result is close to N(0, σ²) whatever the values were. For that distribution Max ("Quantizing for minimum distortion",
// 1960) gives the uniform quantizer of least squared error; at 2 bits its levels span half of the range, so that a few
// values saturate. The stored step is scaled such that the inner product of the dequantized group with the group equals
// the group's squared norm. The error is then orthogonal to the group and has zero mean over the random signs
// (Vargaftik et al., "DRIVE", NeurIPS 2021; "EDEN", ICML 2022). Groups that a few values dominate are an exception:
// their transform has few distinct values (docs/quantization.md).
//
// Tensors [samples, ..., C] with enough positions per sample are centred by channel first: tokens of an image are
// alike, as are positions of a feature map, so the mean over a sample's positions is often half of a value, after
// attention nearly all of it. The means [samples, C] are stored with the codes, in 8 bits.
#pragma once

#include "core/parallel.h"
#include "ops/quantize/quantize.h"

#include <array>

namespace lacuna::quant {

inline constexpr int max_hadamard_bits = 3;

/// Shape [samples, C] of the stored channel means; [0, C] if there are none, since positions per sample are few.
Shape means_shape(const Shape& shape);

/// The stored channel means of a tensor: dithered 8-bit codes behind everything else, with a key of their own.
QuantizedTensor stored_means(const QuantizedTensor& quantized);
/// Samples [begin, end) that the groups of elements [begin, end) belong to.
lacuna::Range samples_of(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end);
/// The most samples that the groups of `count` consecutive elements can belong to.
std::int64_t max_samples(const QuantizedTensor& quantized, std::int64_t count);

/// Step and squared error of the best uniform quantizer of N(0, 1), by its bits (Max 1960, table II).
struct MaxQuantizer {
  double step, distortion;
};
inline constexpr std::array<MaxQuantizer, max_hadamard_bits + 1> max_quantizers{
    {{}, {1.5958, 0.3634}, {0.9957, 0.1188}, {0.5860, 0.03744}}};

/// Writes `quantized.bytes`; shape, type and config have been checked.
void quantize_hadamard(const Tensor& x, const QuantizedTensor& quantized);
/// dequantize() of checked arguments.
void dequantize_hadamard(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out);
BlockDequantizer hadamard_block_dequantizer(const QuantizedTensor& quantized, std::int64_t max_elements,
                                            std::int64_t slots);

}  // namespace lacuna::quant
