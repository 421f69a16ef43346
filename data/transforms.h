// Transforms of a sample: crop, flip, normalise, and what else can be composed with them. Views of images (resize, crop
// of any size) are in data/images/view.h.
#pragma once

#include "data/augment/options.h"
#include "data/dataset.h"
#include "data/sample.h"

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
  /// The fields of its results. Refuses fields that it cannot take.
  virtual SampleFields describe(SampleFields fields) const = 0;
  /// Replaces tensors of the sample. Called by several threads at once.
  virtual void apply(Sample& sample, SampleRandom& random) const = 0;
};
using Transforms = std::vector<std::shared_ptr<const Transform>>;

struct SplitTransforms {
  Transforms early;  // of each sample as it is read
  Transforms late;   // of its row in the batch, once that is taken
};
/// Cuts `transforms`, which a sample with `fields` goes through, before the one that makes `images` f32: a batch that
/// waits holds them in u8, a quarter of the bytes.
SplitTransforms split_at_f32(Transforms transforms, SampleFields fields);

/// A crop of `images` u8 [H, W, C] of the same size, from the image padded by `padding` black pixels on each side (the
/// CIFAR recipe of He et al. 2016, section 4.2).
class RandomCrop final : public Transform {
 public:
  explicit RandomCrop(std::int64_t padding) : padding_(padding) {}
  SampleFields describe(SampleFields fields) const override;
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  std::int64_t padding_;
};

/// Mirrors images u8 [H, W, C], left to right, with a probability.
class RandomFlip final : public Transform {
 public:
  explicit RandomFlip(double probability = 0.5) : probability_(probability) {}
  SampleFields describe(SampleFields fields) const override;
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  double probability_;
};

/// `images` u8 [H, W, C] to f32: (value / 255 − mean) / deviation for each channel.
class Normalize final : public Transform {
 public:
  Normalize(const std::vector<float>& mean, const std::vector<float>& deviation);
  SampleFields describe(SampleFields fields) const override;
  void apply(Sample& sample, SampleRandom& random) const override;
  /// The affine map of each channel: the factors, then the offsets, [2 C].
  std::vector<float> table() const;

 private:
  std::int64_t channels_;
  std::vector<float> scale_, offset_;  // [pixels, channels]: those of the channels, repeated
};

enum class Interpolation : std::uint8_t {
  bilinear,
  bicubic,
  random  // one of the two for each image
};
/// `bilinear`, `bicubic` or `random`.
Interpolation interpolation_of(std::string_view name);

struct TransformOptions {
  std::int64_t image_size = 0;               // side in pixels of the result; 0: the data set's own size
  std::string augment = "none";              // a name of `augmentations()`
  AugmentOptions pixels{};                   // what else happens to pixels
  std::int64_t crop_padding = 4;             // pixels on each side before a random crop
  std::vector<double> scale{0.08, 1};        // of random_resized_crop: the least and the largest part of the area,
  std::vector<double> ratio{0.75, 4 / 3.0};  // and aspect ratio
  double hflip = 0.5;                        // probability of a flip
  std::vector<float> mean{}, deviation{};    // of each channel, values from 0 to 1; empty: the data set's own
  Interpolation interpolation = Interpolation::bilinear;
  double crop_pct = 1;  // of images that are not cropped at random: the part of the resized one that is kept,
  std::string crop_mode = "center";  // and how (timm's)
  bool apply_exif = false;
  bool fast_decode = false;
};

/// Random transforms of an image that leave its label as it is, by name.
struct Augmentation {
  std::string_view name;
  /// The view of the image that begins it; null: all of the image, or its middle.
  std::shared_ptr<const Transform> (*view)(const TransformOptions& options, const ViewOptions& view);
  Transforms (*make)(const TransformOptions& options);
};
/// All augmentations; a further one is a further line of the table.
std::span<const Augmentation> augmentations();

/// Decoding, resize, augmentation and normalisation for the images of a data set. An unknown augmentation and
/// impossible sizes and ranges are the input's fault.
Transforms image_transforms(const DatasetInfo& source, const TransformOptions& options);

/// Writes the window of `in` u8 [H, W, C] whose corner lies `down`, `right` from the image's to `out`
/// [height, width, C]; black beyond the image.
void shift(std::int64_t down, std::int64_t right, const Tensor& in, const Tensor& out);
/// Mirrors an image u8 [H, W, C] in place, left to right.
void flip_horizontally(const Tensor& image);

}  // namespace lacuna
