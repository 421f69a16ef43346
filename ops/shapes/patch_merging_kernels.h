// Kernels of ops/shapes/patch_merging.h.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// x [B, H, W, C] to y [B, ⌈H/2⌉, ⌈W/2⌉, 4·C]. Any type.
inline constinit Kernel<void(const Tensor& x, const Tensor& y)> merge_patches{"patch_merging"};
/// The reverse; what lies beyond x is dropped.
inline constinit Kernel<void(const Tensor& y, const Tensor& x)> split_patches{"patch_merging backward"};

}  // namespace lacuna
