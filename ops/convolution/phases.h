// A dilated convolution as an ordinary one: pixels that are `dilation` apart form images of their own.
#pragma once

#include "core/kernel.h"

#include <cstdint>

namespace lacuna {

class Tensor;

/// Images [N, height, width, C] as images of every `dilation`-th pixel: phase (a, b) has the pixels (a + i · dilation,
/// b + j · dilation). Phases [N · down · across, rows, columns, C] are in order of image, a, b; pixels beyond the image
/// are zeros.
struct Phases {
  std::int64_t dilation, images, height, width;

  constexpr std::int64_t down() const { return dilation < height ? dilation : height; }
  constexpr std::int64_t across() const { return dilation < width ? dilation : width; }
  constexpr std::int64_t rows() const { return (height + dilation - 1) / dilation; }
  constexpr std::int64_t columns() const { return (width + dilation - 1) / dilation; }
  constexpr std::int64_t count() const { return images * down() * across(); }
};

/// `split` = phases of `images`. Any floating type.
inline constinit Kernel<void(const Phases& phases, const Tensor& images, const Tensor& split)> split_phases{
    "dilated conv2d"};
/// The way back: `images` (+)= the pixels of `split` that lie in them. Any floating type.
inline constinit Kernel<void(const Phases& phases, const Tensor& split, const Tensor& images, bool add)> join_phases{
    "dilated conv2d"};

}  // namespace lacuna
