// Operations on the colour of each pixel, in place, to Pillow's bits. Images of one channel stay as they are.
#pragma once

#include "data/augment/image_view.h"

namespace lacuna::augment {

/// Mean of the pixels' luma: Pillow's mode L.
double mean_luma(const ImageView& image);
/// 0: grey; 1: the image (ImageEnhance.Color).
void saturation(const ImageView& image, float factor);
/// Turns the hue by `factor` of a whole turn, −0.5 to 0.5 (torchvision's adjust_hue of a Pillow image).
void hue(const ImageView& image, double factor);

}  // namespace lacuna::augment
