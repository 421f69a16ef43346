// Launchers of ops/quantize/slope.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// SlopeLevels (ops/quantize/slope.h).
struct Slopes {
  float thresholds[3], points[4];
};

/// values: [count]; bytes: [ceil(count / 4)].
void encode_slopes(Stream stream, DType type, const Slopes& levels, const void* values, std::int64_t count,
                   std::uint8_t* bytes);
/// The points of elements [first, first + count) into out [count].
void decode_slopes(Stream stream, DType type, const Slopes& levels, const std::uint8_t* bytes, std::int64_t first,
                   std::int64_t count, void* out);

}  // namespace lacuna::cuda
