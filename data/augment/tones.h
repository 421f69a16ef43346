// In-place operations on each pixel value independently, bit-identical to Pillow.
#pragma once

#include "data/augment/image_view.h"

namespace lacuna::augment {

/// Stretches the values of each channel to the range 0 to 255 (ImageOps.autocontrast).
void auto_contrast(const ImageView& image);
/// Equalizes the histogram of each channel (ImageOps.equalize).
void equalize(const ImageView& image);
void invert(const ImageView& image);
/// Inverts values of at least `threshold` (0 to 256).
void solarize(const ImageView& image, int threshold);
/// Adds `amount` ≥ 0 to values below 128 (timm's solarize_add).
void solarize_add(const ImageView& image, int amount);
/// Keeps the upper `bits` bits of each value: none if `bits` < 1, all if `bits` > 7. For 0, Pillow before 13 gives
/// black; later versions reject it.
void posterize(const ImageView& image, int bits);
/// Scales brightness: `factor` 0 gives black, 1 the unchanged image (ImageEnhance.Brightness).
void brightness(const ImageView& image, float factor);
/// Scales contrast: `factor` 0 gives the image's mean grey, 1 the unchanged image (ImageEnhance.Contrast).
void contrast(const ImageView& image, float factor);

}  // namespace lacuna::augment
