// Transforms of a sample: resize, crop, flip, normalise, and what else can be composed with them.
#pragma once

#include "core/random.h"
#include "data/dataset.h"
#include "data/resize.h"
#include "data/sample.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The draws of one sample in one epoch: a function of (seed, epoch, index), in whatever order samples are read.
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index)
      : stream_{seed, static_cast<std::uint32_t>(epoch), random_site("data/augment")},
        next_(static_cast<std::uint64_t>(index) * draws_per_sample) {}

  /// The next draw: an integer in [0, bound).
  std::int64_t below(std::int64_t bound) { return stream_.below(next_++, static_cast<std::uint32_t>(bound)); }
  /// The next draw: a number in [low, high).
  double uniform(double low = 0, double high = 1) {
    return low + (high - low) * (static_cast<double>(stream_.bits(next_++)) * 0x1p-32);
  }

 private:
  static constexpr std::uint64_t draws_per_sample = 1024;
  RandomStream stream_;
  std::uint64_t next_;
};

class Transform {
 public:
  virtual ~Transform() = default;
  /// The fields of its results. Refuses fields that it cannot take.
  virtual SampleFields describe(SampleFields fields) const = 0;
  /// Replaces tensors of the sample. Called by several threads at once.
  virtual void apply(Sample& sample, SampleRandom& random) const = 0;
};
using Transforms = std::vector<std::shared_ptr<const Transform>>;

/// Resamples `images` u8 [H, W, C] to [height, width, C]: antialiased, to Pillow's bits.
class Resize final : public Transform {
 public:
  /// The weights for images of `source` are computed once.
  Resize(const Shape& source, std::int64_t height, std::int64_t width, ResizeFilter filter = ResizeFilter::bilinear);
  SampleFields describe(SampleFields fields) const override;
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  ResizeFilter filter_;
  ResizeAxis rows_, columns_;
};

/// The middle [side, side, C] of `images` u8 [H, W, C]; black where an image is smaller.
class CenterCrop final : public Transform {
 public:
  explicit CenterCrop(std::int64_t side) : side_(side) {}
  SampleFields describe(SampleFields fields) const override;
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  std::int64_t side_;
};

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

/// Mirrors every second image u8 [H, W, C], left to right.
class RandomFlip final : public Transform {
 public:
  SampleFields describe(SampleFields fields) const override;
  void apply(Sample& sample, SampleRandom& random) const override;
};

/// `images` u8 [H, W, C] to f32: (value / 255 − mean) / deviation for each channel.
class Normalize final : public Transform {
 public:
  Normalize(const std::vector<float>& mean, const std::vector<float>& deviation);
  SampleFields describe(SampleFields fields) const override;
  void apply(Sample& sample, SampleRandom& random) const override;

 private:
  std::int64_t channels_;
  std::vector<float> scale_, offset_;  // [pixels, channels]: those of the channels, repeated
};

struct TransformOptions {
  std::int64_t image_size = 0;             // side in pixels of the result; 0: the data set's own size
  std::string augment = "none";            // a name of `augmentations()`
  std::int64_t crop_padding = 4;           // pixels on each side before a random crop
  std::vector<float> mean{}, deviation{};  // of each channel, values from 0 to 1; empty: the data set's own
  ResizeFilter filter = ResizeFilter::bilinear;
  double crop_pct = 1;  // below 1: the shorter side becomes image_size / crop_pct, and the middle is cut out (timm)
};

/// Random transforms of an image that leave its size and its label as they are, by name.
struct Augmentation {
  std::string_view name;
  Transforms (*make)(const TransformOptions& options);
};
/// All augmentations; a further one is a further line of the table.
std::span<const Augmentation> augmentations();

/// Resize, augmentation and normalisation for the images of a data set. An unknown augmentation and an impossible size
/// are the input's fault.
Transforms image_transforms(const DatasetInfo& source, const TransformOptions& options);

/// Writes the window of `in` u8 [H, W, C] whose corner lies `down`, `right` from the image's to `out`
/// [height, width, C]; black beyond the image.
void shift(std::int64_t down, std::int64_t right, const Tensor& in, const Tensor& out);
/// Mirrors an image u8 [H, W, C] in place, left to right.
void flip_horizontally(const Tensor& image);

}  // namespace lacuna
