// Launcher of ops/quantize/draw_key.cu.
#pragma once

#include "core/random.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Writes the mixed key that block `number` of the stream gives.
void draw_key(Stream stream, const RandomStream& random, std::uint64_t number, std::uint64_t* key);

}  // namespace lacuna::cuda
