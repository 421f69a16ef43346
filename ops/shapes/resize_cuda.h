// Launchers of ops/shapes/resize.cu. Tensors are of `type`.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/shapes/resize_axis.h"

#include <cstdint>

namespace lacuna::cuda {

/// y [rows, channels]: pixels from `first_row` on of the resized images x [N, down.extent, across.extent, channels].
struct ResizePixels {
  const void* x;
  void* y;
  ResampledAxis down, across;
  std::int64_t channels, first_row, rows;
};
void resize_pixels(Stream stream, DType type, const ResizePixels& what);

/// dx [images, down.extent, across.extent, channels] from dy [images, down.out, across.out, channels].
struct ResizeGradient {
  const void* dy;
  void* dx;
  ResampledAxis down, across;
  std::int64_t channels, images;
};
void resize_gradient(Stream stream, DType type, const ResizeGradient& what);

}  // namespace lacuna::cuda
