// Colour jitter, random grayscale and random blur.
#pragma once

#include "data/augment/pixel_transform.h"

#include <array>
#include <vector>

namespace lacuna::augment {

/// Changes brightness, contrast, saturation and hue in random order, each by a factor around 1 (hue: around 0), drawn
/// as torchvision's ColorJitter does.
class ColorJitter final : public PixelTransform {
 public:
  /// `strengths`: one number for all but hue, or three without hue, or four. Other counts, and a hue above 0.5, are the
  /// input's fault.
  ColorJitter(const std::vector<double>& strengths, double probability);
  Geometry apply(SampleImage& image, SampleRandom& random) const override;

 private:
  std::array<double, 4> strengths_{};  // brightness, contrast, saturation, hue
  double probability_;
};

/// Converts images to grayscale with three equal channels.
class RandomGrayscale final : public PixelTransform {
 public:
  explicit RandomGrayscale(double probability)
      : PixelTransform("data.grayscale_probability"), probability_(probability) {}
  Geometry apply(SampleImage& image, SampleRandom& random) const override;

 private:
  double probability_;
};

/// Applies a Gaussian blur with a standard deviation of 0.1 to 2 pixels.
class RandomBlur final : public PixelTransform {
 public:
  explicit RandomBlur(double probability) : PixelTransform("data.blur_probability"), probability_(probability) {}
  Geometry apply(SampleImage& image, SampleRandom& random) const override;

 private:
  double probability_;
};

}  // namespace lacuna::augment
