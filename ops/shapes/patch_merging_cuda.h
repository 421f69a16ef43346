// Launcher of ops/shapes/patch_merging.cu.
#pragma once

#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Copies between images [images, height, width, pixel] and merged [images, ⌈height/2⌉, ⌈width/2⌉, 4, pixel]; merged
/// pixels beyond the image are 0.
struct MergePatches {
  void *image, *merged;
  std::int64_t images, height, width;
  std::int64_t pixel;  // bytes
  bool splits;         // from merged to image
};
void merge_patches(Stream stream, const MergePatches& what);

}  // namespace lacuna::cuda
