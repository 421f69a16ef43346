// Shear, translation and rotation, resampled without antialiasing, to Pillow's bits.
#pragma once

#include "data/augment/image_view.h"
#include "data/resize.h"

#include <cstdint>
#include <span>

namespace lacuna::augment {

/// The source of the pixel whose centre is (x, y): (xx·x + xy·y + x0, yx·x + yy·y + y0).
struct Affine {
  double xx = 1, xy = 0, x0 = 0, yx = 0, yy = 1, y0 = 0;
};

/// About the centre of the image, counter-clockwise (Image.rotate).
Affine rotation(const ImageView& image, double degrees);

/// Image.transform with Image.AFFINE, in place. Pixels from outside the image become `fill` [channels]; `scratch`
/// [height · width] is overwritten.
void transform(const Affine& map, ResizeFilter filter, std::span<const std::uint8_t> fill, const ImageView& image,
               std::span<std::uint32_t> scratch);

}  // namespace lacuna::augment
