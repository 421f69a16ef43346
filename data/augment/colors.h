// In-place operations on the colour of each pixel, bit-identical to Pillow. Images with one channel are unchanged.
#pragma once

#include "data/augment/image_view.h"

namespace lacuna::augment {

/// Mean luma of the pixels (Pillow's mode L).
double mean_luma(const ImageView& image);
/// Scales saturation: `factor` 0 gives grey, 1 the unchanged image (ImageEnhance.Color).
void saturation(const ImageView& image, float factor);
/// Rotates the hue by `factor` turns, −0.5 to 0.5 (torchvision's adjust_hue of a Pillow image).
void hue(const ImageView& image, double factor);

}  // namespace lacuna::augment
