#include "data/transforms.h"

#include "core/error.h"

#include <algorithm>
#include <array>

namespace lacuna {
namespace {

// Random crop of the padded image, then a flip of every second one (the CIFAR recipe of He et al. 2016, section 4.2).
void crop_flip(const TransformOptions& options, SampleRandom& random, ImageBuffer& image) {
  const std::int64_t padding = options.crop_padding;
  const std::int64_t down = random.below(2 * padding + 1) - padding, right = random.below(2 * padding + 1) - padding;
  shift(down, right, image);
  if (random.below(2) == 1) flip_horizontally(image);
}

constexpr std::array table{
    Augmentation{"none", [](const TransformOptions&, SampleRandom&, ImageBuffer&) {}},
    Augmentation{"crop_flip", crop_flip},
};

const Augmentation* find_augmentation(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Augmentation::name);
  if (found != table.end()) return &*found;
  std::string known;
  for (const Augmentation& augmentation : table)
    known += std::string(known.empty() ? "" : ", ") + std::string(augmentation.name);
  reject("data.augment: expected one of {}; got '{}'", known, name);
}

constexpr std::int64_t largest_side = 16384;

std::int64_t side(std::int64_t own, const TransformOptions& options) {
  const std::int64_t wanted = options.image_size == 0 ? own : options.image_size;
  if (wanted < 1 || wanted > largest_side)
    reject("data.image_size: expected 0 (the dataset's own) to {}, got {}", largest_side, options.image_size);
  return wanted;
}

}  // namespace

std::span<const Augmentation> augmentations() { return table; }

void shift(std::int64_t down, std::int64_t right, ImageBuffer& image) {
  const std::int64_t row_bytes = image.row_bytes();
  const std::int64_t begin =
      std::clamp<std::int64_t>(-right, 0, image.width) * image.channels;  // where the image starts
  const std::int64_t end = std::clamp<std::int64_t>(image.width - right, 0, image.width) * image.channels;
  image.spare.assign(image.pixels.size(), 0);
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::int64_t from = y + down;
    if (from < 0 || from >= image.height || begin >= end) continue;
    std::copy_n(image.pixels.data() + from * row_bytes + begin + right * image.channels, end - begin,
                image.spare.data() + y * row_bytes + begin);
  }
  image.pixels.swap(image.spare);
}

void flip_horizontally(ImageBuffer& image) {
  const std::int64_t channels = image.channels;
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t* left = image.pixels.data() + y * image.row_bytes();
    for (std::uint8_t* right = left + image.row_bytes() - channels; left < right; left += channels, right -= channels)
      std::swap_ranges(left, left + channels, right);
  }
}

Transform::Transform(const DatasetInfo& source, const TransformOptions& options)
    : options_(options),
      augmentation_(find_augmentation(options.augment)),
      channels_(source.channels),
      rows_(source.height, side(source.height, options)),
      columns_(source.width, side(source.width, options)) {
  if (options.crop_padding < 0 || options.crop_padding > largest_side)
    reject("data.crop_padding: expected 0 to {}, got {}", largest_side, options.crop_padding);
  for (std::int64_t x = 0; x < width(); ++x) {
    for (std::int64_t c = 0; c < channels_; ++c) {
      const double mean = source.mean[static_cast<std::size_t>(c)];
      const double deviation = source.deviation[static_cast<std::size_t>(c)];
      scale_.push_back(static_cast<float>(1.0 / (255.0 * deviation)));
      offset_.push_back(static_cast<float>(-mean / deviation));
    }
  }
}

void Transform::operator()(ImageBuffer& image, SampleRandom random, float* out) const {
  if (rows_.source() != rows_.target() || columns_.source() != columns_.target()) resize(rows_, columns_, image);
  augmentation_->apply(options_, random, image);
  const std::int64_t row = image.row_bytes();
  const float* const scale = scale_.data();
  const float* const offset = offset_.data();
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* const in = image.pixels.data() + y * row;
    float* const line = out + y * row;
#pragma omp simd
    for (std::int64_t i = 0; i < row; ++i) line[i] = static_cast<float>(in[i]) * scale[i] + offset[i];
  }
}

}  // namespace lacuna
