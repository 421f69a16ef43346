// Launcher of ops/pixels/pixels.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/pixels/pixels.h"

namespace lacuna::cuda {

/// y [count] of `type`; see normalize_pixels.
void normalize_pixels(Stream stream, DType type, const PixelImages& images, void* y);

}  // namespace lacuna::cuda
