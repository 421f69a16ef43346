// Views of images: a box of the image is resized, and a window of the result is kept. The source is an
// image file u8 [bytes] or pixels u8 [H, W, C]; the result is pixels u8 [height, width, C]. Only the pixels that the
// window needs are decoded, row by row.
#pragma once

#include "data/images/image_reader.h"
#include "data/resize.h"
#include "data/transforms.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace lacuna {

struct ViewOptions {
  ImageSize size = 224;
  std::int64_t channels = 3;  // of image files: 3, or 1 for grey as Pillow's mode L
  Interpolation interpolation = Interpolation::bilinear;
  DecodeOptions decode{};
  bool fast = false;  // downscale JPEGs up to 8 times while decoding if the view shrinks anyway; pixels differ
  std::vector<std::uint8_t> fill{};  // [channels]: colour outside the image; empty: black
};

/// A transform that replaces each image by a view of it.
class ViewTransform : public Transform {
 public:
  explicit ViewTransform(ViewOptions options) : options_(std::move(options)) {}
  SampleField describe(SampleField image) const final;
  Geometry apply(SampleImage& image, SampleRandom& random) const final;

  /// Chooses the view of an image [height, width].
  virtual View view(std::int64_t height, std::int64_t width, SampleRandom& random) const = 0;
  /// The same, where the view depends on the image's mask.
  virtual View view_of(const SampleImage& /*image*/, std::int64_t height, std::int64_t width,
                       SampleRandom& random) const {
    return view(height, width, random);
  }

 protected:
  const ImageSize& size() const { return options_.size; }

 private:
  ViewOptions options_;
};

/// Crops a random box, resizes it to `size`, and flips it horizontally with probability `flip`. The box's share of the
/// area is uniform over the scale range, its aspect ratio log-uniform over the ratio range. This is Inception's
/// augmentation (Szegedy et al. 2014, section 6) with timm's draws (timm 1.0.31, RandomResizedCropAndInterpolation).
class RandomResizedCrop final : public ViewTransform {
 public:
  struct Ranges {
    double least_scale = 0.08, most_scale = 1;
    double least_ratio = 3.0 / 4.0, most_ratio = 4.0 / 3.0;
    double flip = 0.5;
  };
  RandomResizedCrop(ViewOptions options, const Ranges& ranges) : ViewTransform(std::move(options)), ranges_(ranges) {}
  View view(std::int64_t height, std::int64_t width, SampleRandom& random) const override;

 private:
  Ranges ranges_;
};

/// How evaluation makes an image of the model's size (timm's crop_mode).
enum class CropMode : std::uint8_t {
  center,  // resize until both sides are size / crop_pct at least, then crop the center
  squash,  // resize both sides to size / crop_pct, then crop the center
  border   // resize until both sides are size / crop_pct at most, pad, then crop the center
};
/// Parses `center`, `squash` or `border`.
CropMode crop_mode_of(std::string_view name);

/// The evaluation view of timm 1.0.31 (transforms_imagenet_eval): resize and center crop.
class CenterView final : public ViewTransform {
 public:
  CenterView(ViewOptions options, double crop_pct, CropMode mode)
      : ViewTransform(std::move(options)), crop_pct_(crop_pct), mode_(mode) {}
  View view(std::int64_t height, std::int64_t width, SampleRandom& random) const override;

 private:
  double crop_pct_;
  CropMode mode_;
};

}  // namespace lacuna
