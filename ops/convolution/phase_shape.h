// The images that a dilated convolution is an ordinary one over.
#pragma once

#include <cstdint>

namespace lacuna {

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

}  // namespace lacuna
