// Operations on the neighbourhood of each pixel, to Pillow's bits.
#pragma once

#include "data/augment/image_view.h"

namespace lacuna::augment {

/// 0: smoothed, 1: the image, above: sharpened (ImageEnhance.Sharpness). The outermost pixels stay. `in` and `out` are
/// two images of one shape.
void sharpness(const ImageView& in, const ImageView& out, float factor);
/// Blurs `image` in place with a Gaussian of `deviation` pixels, as three boxes each way (ImageFilter.GaussianBlur).
/// `scratch` is another image of its shape.
void gaussian_blur(const ImageView& image, const ImageView& scratch, float deviation);

}  // namespace lacuna::augment
