// Random colour, grey and blur.
#pragma once

#include "data/augment/pixel_transform.h"

#include <array>
#include <vector>

namespace lacuna::augment {

/// Brightness, contrast, saturation and hue in a random order, each by a factor around 1 (around 0: hue) as
/// torchvision's ColorJitter draws it.
class ColorJitter final : public PixelTransform {
 public:
  /// `strengths`: one number for all but hue, or three, or four. Other counts, and a hue above 0.5, are the input's
  /// fault.
  ColorJitter(const std::vector<double>& strengths, double probability);
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  std::array<double, 4> strengths_{};  // of brightness, contrast, saturation, hue
  double probability_;
};

/// Makes images grey, in three equal channels.
class RandomGrayscale final : public PixelTransform {
 public:
  explicit RandomGrayscale(double probability)
      : PixelTransform("data.grayscale_probability"), probability_(probability) {}
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  double probability_;
};

/// Blurs images with a deviation of 0.1 to 2 pixels.
class RandomBlur final : public PixelTransform {
 public:
  explicit RandomBlur(double probability) : PixelTransform("data.blur_probability"), probability_(probability) {}
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  double probability_;
};

}  // namespace lacuna::augment
