// Launchers of ops/quantize/sign_mask.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Bit i: whether values[i] is positive. values: [count]; bits: [ceil(count / 8)].
void pack_sign_bits(Stream stream, DType type, const void* values, std::int64_t count, std::uint8_t* bits);

/// out[i] = in[i] where bit `first` + i is set, otherwise 0; NaN stays if `keep_nan`. in, out: [count]; out may be in.
struct ApplySignBits {
  const void* in;
  const std::uint8_t* bits;
  std::int64_t first;
  bool keep_nan;
  void* out;
  std::int64_t count;
};
void apply_sign_bits(Stream stream, DType type, const ApplySignBits& what);

}  // namespace lacuna::cuda
