// From a stored image to the floating-point one that a model sees: resized, augmented, normalised.
#pragma once

#include "core/random.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/resize.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The draws of one image in one epoch: a function of (seed, epoch, index), whoever asks and when.
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index)
      : stream_{seed, static_cast<std::uint32_t>(epoch), random_site("data/augment")},
        next_(static_cast<std::uint64_t>(index) * draws_per_image) {}

  /// The next draw: an integer in [0, bound).
  std::int64_t below(std::int64_t bound) { return stream_.below(next_++, static_cast<std::uint32_t>(bound)); }

 private:
  static constexpr std::uint64_t draws_per_image = 1024;
  RandomStream stream_;
  std::uint64_t next_;
};

struct TransformOptions {
  std::int64_t image_size = 0;    // side in pixels of what comes out; 0: the dataset's own size
  std::string augment = "none";   // a name of `augmentations()`
  std::int64_t crop_padding = 4;  // pixels on each side before a random crop; what is beyond the image is black
};

/// A random change of an image that leaves its size and its class as they are.
struct Augmentation {
  std::string_view name;
  void (*apply)(const TransformOptions& options, SampleRandom& random, ImageBuffer& image);
};

/// All augmentations; a further one is a further line of the table.
std::span<const Augmentation> augmentations();

/// The window of the image's own size whose corner lies `down`, `right` from the image's; black beyond the image.
void shift(std::int64_t down, std::int64_t right, ImageBuffer& image);
/// Left becomes right.
void flip_horizontally(ImageBuffer& image);

/// Resizes (bilinear, antialiased), augments and normalises: (value / 255 - mean) / deviation.
class Transform {
 public:
  /// An unknown augmentation or an impossible size is the input's fault.
  Transform(const DatasetInfo& source, const TransformOptions& options);

  std::int64_t height() const { return rows_.target(); }
  std::int64_t width() const { return columns_.target(); }
  std::int64_t channels() const { return channels_; }

  /// `image` holds a stored image and is used up; `out` is f32 [height, width, channels].
  void operator()(ImageBuffer& image, SampleRandom random, float* out) const;

 private:
  TransformOptions options_;
  const Augmentation* augmentation_;
  std::int64_t channels_;
  BilinearAxis rows_, columns_;
  std::vector<float> scale_, offset_;  // [width, channels]: one row of pixels
};

}  // namespace lacuna
