// A dilated convolution as an ordinary one: pixels that are `dilation` apart form images of their own.
#pragma once

#include "core/kernel.h"
#include "ops/convolution/phase_shape.h"

namespace lacuna {

class Tensor;

/// `split` = phases of `images`. Any floating type.
inline constinit Kernel<void(const Phases& phases, const Tensor& images, const Tensor& split)> split_phases{
    "dilated conv2d"};
/// The way back: `images` (+)= the pixels of `split` that lie in them. Any floating type.
inline constinit Kernel<void(const Phases& phases, const Tensor& split, const Tensor& images, bool add)> join_phases{
    "dilated conv2d"};

}  // namespace lacuna
