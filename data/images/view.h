// Square views of images: a box of the image, resized, and a window of that. All are cut from `encoded` u8 [bytes], an
// image file, or from `images` u8 [H, W, C], and become `images` u8 [side, side, C]. Only what the window needs is
// decoded, a row at a time.
#pragma once

#include "data/images/image_reader.h"
#include "data/resize.h"
#include "data/transforms.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace lacuna {

/// A window of a resized box of an image.
struct View {
  ImageBox box;                    // of the image
  std::int64_t height, width;      // to which the box is resized
  std::int64_t top = 0, left = 0;  // the window's corner there; negative: the window begins beyond the edge
  bool flip = false;               // mirror the window, left to right
};

struct ViewOptions {
  std::int64_t side = 224;
  Interpolation interpolation = Interpolation::bilinear;
  DecodeOptions decode{};
  bool fast = false;                 // decode JPEGs up to 8 times smaller where the view still shrinks; pixels differ
  std::vector<std::uint8_t> fill{};  // of each channel, beyond the edges; empty: black
};

/// Chooses a view of each image.
class ViewTransform : public Transform {
 public:
  explicit ViewTransform(ViewOptions options) : options_(std::move(options)) {}
  SampleFields describe(SampleFields fields) const final;
  void apply(Sample& sample, SampleRandom& random) const final;

  /// The view of an image [height, width].
  virtual View view(std::int64_t height, std::int64_t width, SampleRandom& random) const = 0;

 protected:
  std::int64_t side() const { return options_.side; }

 private:
  ViewOptions options_;
};

/// A random part of the image, resized to the side: its share of the area is drawn from `scale`, its aspect ratio from
/// `ratio`, on a logarithmic scale; then a flip with probability `flip`. Inception's augmentation (Szegedy et al. 2014,
/// section 6) with timm's draws (timm 1.0.31, RandomResizedCropAndInterpolation).
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

/// How an image becomes a square in evaluation (timm's crop_mode).
enum class CropMode : std::uint8_t {
  center,  // the shorter side to side / crop_pct, and the middle
  squash,  // both sides to side / crop_pct, and the middle
  border   // the longer side to side / crop_pct, and the middle, with a border where the image ends
};
/// `center`, `squash` or `border`.
CropMode crop_mode_of(std::string_view name);

/// The middle of the image, as timm 1.0.31 evaluates (transforms_imagenet_eval).
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
