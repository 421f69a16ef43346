// Launchers of core/tensor.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Sets `count` elements of `size` bytes (1, 2, 4 or 8) to the low bytes of `element`.
void fill(Stream stream, void* to, std::int64_t count, int size, std::uint64_t element);

/// to[i] = from[i], converted as by Tensor::to: between f32, bf16 and f16, and from u8, i32 and i64 to these.
void convert(Stream stream, std::int64_t count, const void* from, DType from_type, void* to, DType to_type);

/// A kernel of this build, which shows whether a device can run them.
const void* any_kernel();

}  // namespace lacuna::cuda
