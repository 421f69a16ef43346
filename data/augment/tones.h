// Operations that change each value of a pixel by itself, in place, to Pillow's bits.
#pragma once

#include "data/augment/image_view.h"

namespace lacuna::augment {

/// Spreads the values of each channel over 0 to 255 (ImageOps.autocontrast).
void auto_contrast(const ImageView& image);
/// Makes each value of a channel about equally frequent (ImageOps.equalize).
void equalize(const ImageView& image);
void invert(const ImageView& image);
/// Inverts values from `threshold` (0 to 256) on.
void solarize(const ImageView& image, int threshold);
/// Adds `amount`, not negative, to values below 128 (timm's solarize_add).
void solarize_add(const ImageView& image, int amount);
/// Keeps the upper `bits` of each value: none below 1, all above 7. Pillow before 13 gives black for 0, later versions
/// refuse it.
void posterize(const ImageView& image, int bits);
/// 0: black; 1: the image (ImageEnhance.Brightness).
void brightness(const ImageView& image, float factor);
/// 0: the grey of the image's mean; 1: the image (ImageEnhance.Contrast).
void contrast(const ImageView& image, float factor);

}  // namespace lacuna::augment
