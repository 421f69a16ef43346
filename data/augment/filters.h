// Neighbourhood filters, bit-identical to Pillow.
#pragma once

#include "data/augment/image_view.h"

namespace lacuna::augment {

/// Changes sharpness: `factor` 0 smooths, 1 keeps the image, larger values sharpen (ImageEnhance.Sharpness). Border
/// pixels are unchanged. `in` and `out` have the same shape and do not overlap.
void sharpness(const ImageView& in, const ImageView& out, float factor);
/// Applies a Gaussian blur with a standard deviation of `deviation` pixels in place, approximated by three box blurs
/// per axis (ImageFilter.GaussianBlur). `scratch` is another image of the same shape.
void gaussian_blur(const ImageView& image, const ImageView& scratch, float deviation);

}  // namespace lacuna::augment
