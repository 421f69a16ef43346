// Kernels of ops/shapes/resize.h. Tensors of one call have one floating type.
#pragma once

#include "core/kernel.h"
#include "ops/shapes/resize_axis.h"

namespace lacuna {

class Tensor;

struct ResampledAxes {
  ResampledAxis down, across;
};

/// y = pixels [first_row, first_row + rows of y) of the resized images. x: [N, down.extent, across.extent, C]; y:
/// [rows, C].
inline constinit Kernel<void(const ResampledAxes& axes, const Tensor& x, std::int64_t first_row, const Tensor& y)>
    resize_pixels{"resize"};
/// dx [N, down.extent, across.extent, C] from dy [N, down.out, across.out, C].
inline constinit Kernel<void(const ResampledAxes& axes, const Tensor& dy, const Tensor& dx)> resize_gradient{
    "resize backward"};

}  // namespace lacuna
