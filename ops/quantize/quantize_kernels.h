// Kernels of ops/quantize. Shapes and types have been checked.
#pragma once

#include "core/kernel.h"
#include "ops/quantize/quantizer.h"
#include "ops/quantize/slope.h"

namespace lacuna::quant {

/// Writes the key of draws [] that block `number` of the stream gives, mixed as EightDraws takes it (draws.h).
inline constinit Kernel<void(const RandomStream& stream, std::uint64_t number, const Tensor& key)> draw_key{
    "key of draws"};

// Quantizer::encode and decode. Workspaces are the kernels' own.

inline constinit Kernel<void(const Tensor& x, const QuantizedTensor& quantized, const KnownRanges* known)>
    encode_affine{"quantize"};
inline constinit Kernel<void(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out)>
    decode_affine{"dequantize"};
/// On cuda: values whose bit in `signs` (sign_mask.h) is not set are 0.
inline constinit Kernel<void(const QuantizedTensor& quantized, const Tensor& signs, std::int64_t begin,
                             std::int64_t end, const Tensor& out)>
    decode_affine_rectified{"dequantize"};
inline constinit Kernel<void(const Tensor& x, const QuantizedTensor& quantized)> encode_hadamard{"quantize"};
inline constinit Kernel<void(const QuantizedTensor& quantized, std::int64_t begin, std::int64_t end, const Tensor& out)>
    decode_hadamard{"dequantize"};

// sign_mask.h

/// values: [n]; bits: u8 [ceil(n / 8)].
inline constinit Kernel<void(const Tensor& values, const Tensor& bits)> pack_sign_bits{"sign mask"};
/// out = in where bit `first` + i is set, and 0 elsewhere; a NaN stays if `keep_nan`. in, out: [n]; out may be in.
inline constinit Kernel<void(const Tensor& in, const Tensor& bits, std::int64_t first, bool keep_nan,
                             const Tensor& out)>
    apply_sign_bits{"values by a sign mask"};

// slope.h

/// values: [n]; bytes: u8 [ceil(n / 4)].
inline constinit Kernel<void(const Tensor& values, const SlopeLevels& levels, const Tensor& bytes)> encode_slopes{
    "slopes"};
/// Elements from `begin` on into `out`.
inline constinit Kernel<void(const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, const Tensor& out)>
    decode_slopes{"values of slopes"};

}  // namespace lacuna::quant
