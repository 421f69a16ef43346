// The photometric distortion of training for segmentation and detection, on bytes as OpenCV converts them.
#pragma once

#include "data/augment/pixel_transform.h"

namespace lacuna::augment {

/// value · factor + shift of each value, clipped to [0, 255] and truncated.
void scale_and_shift(const ImageView& image, float factor, float shift);
/// The same of the saturation alone. Grey images stay as they are.
void scale_saturation(const ImageView& image, float factor);
/// Turns the hue by `steps` of 2 degrees. Grey images stay as they are.
void turn_hue(const ImageView& image, int steps);

/// mmsegmentation's PhotoMetricDistortion, which follows SSD (Liu et al. 2016): each with probability 1/2, brightness
/// shifts by up to 32, contrast scales by 0.5 to 1.5 here or last, saturation scales by 0.5 to 1.5, and hue turns by up
/// to 36 degrees.
class PhotometricDistortion final : public PixelTransform {
 public:
  PhotometricDistortion() : PixelTransform("data.photometric") {}
  Geometry apply(SampleImage& image, SampleRandom& random) const override;
};

}  // namespace lacuna::augment
