// QuantizedTensor of few bits after a randomized Hadamard transform: what `encode` and `decode` do for
// Rounding::hadamard.
#pragma once

#include "ops/quantize/affine.h"

#include <cstddef>
#include <span>

namespace lacuna::quant {

struct Layout;

inline constexpr int max_hadamard_bits = 3;

/// The shape [samples, C] of the means that are kept besides, of a tensor [samples, ..., C]: each channel's over a
/// sample's positions. Tokens of one image are alike, and so are places of a map: half of what codes would stand for is
/// often their mean, and after attention nearly all. Empty ([0, C]) where so few positions share a mean that it is not
/// worth its bits, or other codes are asked for.
Shape means_shape(const Shape& shape, const QuantConfig& coding);
/// Estimates them from one of every so many positions of x, at least 32, into `means` of that shape, f32; 0 where that
/// is not finite.
void find_means(const Tensor& x, const Tensor& means);

/// Max's quantizer of so many bits errs by that part of a normal distribution's variance, once it is scaled to leave no
/// mean: d / (1 - d).
double hadamard_error(int bits);

/// Writes `codes.bytes`, with all threads; reads elements [begin, end) of them into `out`, of the codes' type, on the
/// calling thread. Everything about `codes` and the range has been checked. `means`: what is taken off each value,
/// [samples, C] as means_shape has it; in decoding those of the samples that the range's groups touch, which begin with
/// `first_sample`.
void encode_hadamard(const Tensor& x, const QuantizedTensor& codes, std::span<const float> means);
void decode_hadamard(const QuantizedTensor& codes, std::int64_t begin, std::int64_t end, std::span<const float> means,
                     std::int64_t first_sample, std::byte* out);

}  // namespace lacuna::quant
