// Launchers of ops/detection/roi_align.cu. Tensors are of `type`.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

struct RoiCall {
  const float* boxes;          // [count, 4]
  const std::int64_t* places;  // [count, 2]: map and image
  std::int64_t count, number;  // number: of the map
  std::int64_t images, channels;
  std::int32_t height, width;
  float scale;
  std::int32_t bins, samples;
  bool aligned;
};
/// y [rows, channels · bins²], of the boxes from `first_row` on that have this map [images, height, width, channels].
void align_rois(Stream stream, DType type, const RoiCall& what, const void* map, std::int64_t first_row,
                std::int64_t rows, void* y);
/// dmap from dy [count, channels · bins²].
void roi_gradient(Stream stream, DType type, const RoiCall& what, const void* dy, void* dmap);

}  // namespace lacuna::cuda
