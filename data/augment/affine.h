// Shear, translation and rotation without antialiasing, bit-identical to Pillow.
#pragma once

#include "data/augment/image_view.h"
#include "data/resize.h"

#include <cstdint>
#include <span>

namespace lacuna::augment {

/// Maps an output pixel centre (x, y) to its source: (xx·x + xy·y + x0, yx·x + yy·y + y0).
struct Affine {
  double xx = 1, xy = 0, x0 = 0, yx = 0, yy = 1, y0 = 0;
};

/// A counter-clockwise rotation about the centre of the image (Image.rotate).
Affine rotation(const ImageView& image, double degrees);

/// Pillow's Image.transform with Image.AFFINE, in place. Pixels whose source is outside the image become `fill`
/// [channels]; `scratch` [height · width] is overwritten.
void transform(const Affine& map, ResizeFilter filter, std::span<const std::uint8_t> fill, const ImageView& image,
               std::span<std::uint32_t> scratch);

}  // namespace lacuna::augment
