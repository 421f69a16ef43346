// Sign masks: one bit per element, for backward passes that need signs only.
#pragma once

#include "ops/quantize/quantize.h"

#include <cstddef>
#include <cstdint>

namespace lacuna::quant {

/// One bit per element, set if the element is positive; not for NaN and zero. Element i is bit i % 8 of byte i / 8; the
/// unused bits of the last byte are 0. `values` has any floating type and shape. Returns u8 [ceil(count / 8)] on the
/// same device, Purpose::saved.
Tensor pack_signs(const Tensor& values);

/// out[i] = in[i] if bit `first` + i is set, otherwise 0. `out` may be `in`. Throws Error if `bits` is too short or
/// `out` has another length or type.
void pass_where_set(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out);

/// ReLU by exact signs of values that are approximate: as pass_where_set, but NaN stays NaN. Unbiased errors stay
/// unbiased, since no value is cut off whose exact value is positive.
void rectify(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out);

/// The same in place for `count` values at `values` in host memory.
void rectify(DType dtype, std::byte* values, std::int64_t count, const std::uint8_t* bits, std::int64_t first);

/// Dequantizes elements [begin, end), those of bit `begin` on, and rectifies them.
void dequantize_rectified(const QuantizedTensor& quantized, const Tensor& bits, std::int64_t begin, std::int64_t end,
                          const Tensor& out);

/// out[i] = bit `first` + i, as integers, so that loops over them vectorize. `bits` as from pack_signs; `out` [count];
/// both in host memory.
void unpack_signs(const std::uint8_t* bits, std::int64_t first, std::int64_t count, std::int32_t* out);

}  // namespace lacuna::quant
