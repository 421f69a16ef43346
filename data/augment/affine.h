// Shear, translation and rotation without antialiasing, bit-identical to Pillow.
#pragma once

#include "data/augment/image_view.h"
#include "data/geometry.h"
#include "data/resize.h"

#include <cstdint>
#include <span>

namespace lacuna::augment {

/// A counter-clockwise rotation about the centre of the image (Image.rotate).
Affine rotation(const ImageView& image, double degrees);

/// Pillow's Image.transform with Image.AFFINE, in place. Pixels whose source is outside the image become `fill`
/// [channels]; `scratch` [height · width] is overwritten.
void transform(const Affine& map, ResizeFilter filter, std::span<const std::uint8_t> fill, const ImageView& image,
               std::span<std::uint32_t> scratch);

}  // namespace lacuna::augment
