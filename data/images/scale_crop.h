// The random scale and crop of training for segmentation.
#pragma once

#include "data/images/view.h"

#include <cstdint>

namespace lacuna {

/// Fits the image into [long side, short side] times a random ratio, crops a random window, flips it horizontally with
/// probability `flip`, and pads what is smaller than the window at the bottom and right: mmsegmentation's Resize,
/// RandomCrop, RandomFlip and Pad. Another window is drawn, up to ten times, while one class has `most_of_one_class` of
/// the pixels of the mask that count.
class ScaleCrop final : public ViewTransform {
 public:
  struct Ranges {
    double least_ratio = 0.5, most_ratio = 2;
    std::int64_t long_side = 2048, short_side = 512;
    double most_of_one_class = 1;  // 1: any
    double flip = 0.5;
  };
  ScaleCrop(ViewOptions options, const Ranges& ranges) : ViewTransform(std::move(options)), ranges_(ranges) {}
  View view(std::int64_t height, std::int64_t width, SampleRandom& random) const override;
  View view_of(const SampleImage& image, std::int64_t height, std::int64_t width, SampleRandom& random) const override;

 private:
  View scaled(std::int64_t height, std::int64_t width, SampleRandom& random) const;
  /// Draws the window's corner.
  void draw_window(View& view, SampleRandom& random) const;
  View finished(View view, SampleRandom& random) const;

  Ranges ranges_;
};

}  // namespace lacuna
