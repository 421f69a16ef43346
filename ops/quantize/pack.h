// Signs as bits: a 1-bit mask of what a sign-only backward needs.
#pragma once

#include "core/tensor.h"

#include <cstddef>
#include <cstdint>

namespace lacuna::quant {

/// One bit an element, set where it is positive (NaN and zero are not): bit i % 8 of byte i / 8, the rest of the last
/// byte 0. `values` of any floating type and shape; the result is u8 [ceil(count / 8)] on the same device, purpose
/// saved.
Tensor pack_signs(const Tensor& values);

/// out[i] = in[i] where bit `first` + i is set, 0 elsewhere. `out` may be `in`.
void pass_where_set(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out);

/// ReLU by signs that are known exactly, of values that are not: bit `first` + i tells whether in[i] stays. NaN stays
/// NaN. Errors without bias stay without: nothing is cut off where the exact value is positive.
void rectify(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out);

/// The same of `count` values that lie at `values` on the CPU, in place.
void rectify(DType dtype, std::byte* values, std::int64_t count, const std::uint8_t* bits, std::int64_t first);

/// out[i] = 1 where bit `first` + i is set, 0 elsewhere, so that loops which ask for it stay vector code. `bits` as
/// pack_signs makes them, `out` [count], both on the CPU.
void spread_signs(const std::uint8_t* bits, std::int64_t first, std::int64_t count, std::int32_t* out);

}  // namespace lacuna::quant
