// Transforms of a sample's image: crop, flip, normalise, and their composition. Image views (resize, crop of any size)
// are in data/images/view.h.
#pragma once

#include "data/augment/options.h"
#include "data/dataset.h"
#include "data/geometry.h"
#include "data/resize.h"
#include "data/sample.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct ViewOptions;

class Transform {
 public:
  virtual ~Transform() = default;
  /// The image that it makes. Rejects one that it does not support.
  virtual SampleField describe(SampleField image) const = 0;
  /// Replaces the image, and returns how its pixels moved. Must be thread-safe.
  virtual Geometry apply(SampleImage& image, SampleRandom& random) const = 0;
  /// Whether masks and boxes can follow; false for a transform that moves one pixel to several places.
  virtual bool can_be_followed() const { return true; }
};
using Transforms = std::vector<std::shared_ptr<const Transform>>;

/// The fields of samples with `fields` after `transforms`. Rejects images that a transform does not support, and fields
/// that cannot follow.
SampleFields describe(const Transforms& transforms, SampleFields fields);
/// Transforms the image of a sample with `fields`; masks and boxes follow.
void apply(const Transforms& transforms, const SampleFields& fields, Sample& sample, SampleRandom& random);

struct SplitTransforms {
  Transforms early;  // applied to each sample as it is read
  Transforms late;   // applied to its row when the batch is taken
};
/// Splits `transforms`, applied to samples with `fields`, before the one that makes the image f32. Prefetched batches
/// then hold u8 images, a quarter of the bytes.
SplitTransforms split_at_f32(Transforms transforms, const SampleFields& fields);

/// Pads images u8 [H, W, C] by `padding` black pixels on each side and takes a random crop of the original size (the
/// CIFAR recipe of He et al. 2016, section 4.2).
class RandomCrop final : public Transform {
 public:
  explicit RandomCrop(std::int64_t padding) : padding_(padding) {}
  SampleField describe(SampleField image) const override;
  Geometry apply(SampleImage& image, SampleRandom& random) const override;

 private:
  std::int64_t padding_;
};

/// Flips images u8 [H, W, C] horizontally with a probability.
class RandomFlip final : public Transform {
 public:
  explicit RandomFlip(double probability = 0.5) : probability_(probability) {}
  SampleField describe(SampleField image) const override;
  Geometry apply(SampleImage& image, SampleRandom& random) const override;

 private:
  double probability_;
};

/// Converts images u8 [H, W, C] to f32: (value / 255 − mean) / deviation per channel.
class Normalize final : public Transform {
 public:
  Normalize(const std::vector<float>& mean, const std::vector<float>& deviation);
  SampleField describe(SampleField image) const override;
  Geometry apply(SampleImage& image, SampleRandom& random) const override;
  /// The affine map of each channel: the factors, then the offsets, [2 C].
  std::vector<float> table() const;

 private:
  std::int64_t channels_;
  std::vector<float> scale_, offset_;  // [pixels, channels]: each channel's value, repeated per pixel
};

enum class Interpolation : std::uint8_t {
  bilinear,
  bicubic,
  random,  // bilinear or bicubic, drawn per image
  nearest,
  box,
  hamming,
  lanczos
};
/// The filter of an interpolation that is not `random`.
ResizeFilter filter_of(Interpolation interpolation);

enum class Decoding : std::uint8_t { exact, fast };
enum class ExifUse : std::uint8_t { ignore, apply };
enum class WideGrey : std::uint8_t { scale, clip };
enum class PadColor : std::uint8_t { mean, black };
std::array<std::pair<std::string_view, Interpolation>, 7> names_of(Interpolation);
std::array<std::pair<std::string_view, Decoding>, 2> names_of(Decoding);
std::array<std::pair<std::string_view, ExifUse>, 2> names_of(ExifUse);
std::array<std::pair<std::string_view, WideGrey>, 2> names_of(WideGrey);
std::array<std::pair<std::string_view, PadColor>, 2> names_of(PadColor);

struct TransformOptions {
  ImageSize image_size = 0;      // of the output in pixels; 0: the data set's size
  std::int64_t channels = 0;     // of decoded image files: 3 or 1 (grey); 0: 3
  std::string augment = "none";  // one of `augmentations()`
  AugmentOptions pixels{};       // augmentations of pixel values
  std::int64_t crop_padding = 4;
  std::vector<double> scale{0.08, 1}, ratio{0.75, 4 / 3.0};
  double hflip = 0.5;
  std::vector<std::int64_t> scale_to{};  // longer and shorter side; empty: four times the size, and the size
  std::vector<double> scale_ratio{0.5, 2};
  double cat_max_ratio = 0.75;
  PadColor pad = PadColor::mean;
  std::vector<double> mean{}, deviation{};  // per channel, for values in [0, 1]; empty: the data set's
  Interpolation interpolation = Interpolation::bilinear;
  double crop_pct = 1;
  std::string crop_mode = "center";
  Decoding decode = Decoding::exact;
  ExifUse exif = ExifUse::ignore;
  WideGrey grey16 = WideGrey::scale;

  static Fields fields();
};

/// A named set of random, label-preserving image transforms.
struct Augmentation {
  std::string_view name;
  /// Makes the first transform, a view of the image; null: the whole image or a center crop.
  std::shared_ptr<const Transform> (*view)(const TransformOptions& options, const ViewOptions& view);
  Transforms (*make)(const TransformOptions& options);
};
/// The table of all augmentations; add a line to it to add one.
std::span<const Augmentation> augmentations();

/// Channels of the samples' images once they are decoded; 0 if there are none.
std::int64_t pixel_channels(const SampleFields& fields, const TransformOptions& options);

/// Decoding, resizing, augmentation and normalisation for the images of a data set. An unknown augmentation and invalid
/// sizes and ranges are the input's fault.
Transforms image_transforms(const DatasetInfo& source, const TransformOptions& options);

/// Copies to `out` [height, width, C] the window of `in` u8 [H, W, C] whose top left corner is at (`down`, `right`);
/// pixels outside the image are black.
void shift(std::int64_t down, std::int64_t right, const Tensor& in, const Tensor& out);
/// Flips an image u8 [H, W, C] horizontally, in place.
void flip_horizontally(const Tensor& image);

}  // namespace lacuna
