#include "data/transforms.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lacuna {
namespace {

constexpr std::string_view images = "images";
constexpr std::int64_t largest_side = 16384;

/// The `images` of `fields`; refuses them where they are no u8 images.
SampleField& image_field(SampleFields& fields, std::string_view transform) {
  const SampleField& field = field_of(fields, images);
  expect(field.dtype == DType::u8 && field.shape.rank() == 3, "{} expects images u8 [H, W, C], got {} {}", transform,
         name_of(field.dtype), field.shape);
  return fields[static_cast<std::size_t>(&field - fields.data())];
}

const Augmentation& find_augmentation(std::string_view name) {
  std::string known;
  for (const Augmentation& augmentation : augmentations()) {
    if (augmentation.name == name) return augmentation;
    known += std::string(known.empty() ? "" : ", ") + std::string(augmentation.name);
  }
  reject("data.augment: expected one of {}; got '{}'", known, name);
}

}  // namespace

Resize::Resize(const Shape& source, std::int64_t height, std::int64_t width, ResizeFilter filter)
    : filter_(filter), rows_(source[0], height, filter), columns_(source[1], width, filter) {}

SampleFields Resize::describe(SampleFields fields) const {
  SampleField& field = image_field(fields, "resize");
  field.shape = {rows_.target(), columns_.target(), field.shape[2]};
  return fields;
}

void Resize::apply(Sample& sample, SampleRandom&) const {
  const Tensor in = sample[images];
  const Shape& shape = in.shape();
  const bool expected = shape[0] == rows_.source() && shape[1] == columns_.source();
  const ResizeAxis rows = expected ? rows_ : ResizeAxis(shape[0], rows_.target(), filter_);
  const ResizeAxis columns = expected ? columns_ : ResizeAxis(shape[1], columns_.target(), filter_);
  const Tensor out = sample.make(images, {rows.target(), columns.target(), shape[2]}, DType::u8);
  Tensor between = sample.scratch({shape[0], columns.target(), shape[2]}, DType::u8);
  resize(rows, columns, in, between, out);
  sample.give_back(std::move(between));
  sample.set(images, out);
}

SampleFields CenterCrop::describe(SampleFields fields) const {
  SampleField& field = image_field(fields, "a crop");
  field.shape = {side_, side_, field.shape[2]};
  return fields;
}

void CenterCrop::apply(Sample& sample, SampleRandom&) const {
  const Tensor in = sample[images];
  const Shape& shape = in.shape();
  // As Python rounds: halves to even.
  const auto half = [](std::int64_t extent) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(extent) / 2));
  };
  Tensor out = sample.make(images, {side_, side_, shape[2]}, DType::u8);
  shift(half(shape[0] - side_), half(shape[1] - side_), in, out);
  sample.set(images, std::move(out));
}

SampleFields RandomCrop::describe(SampleFields fields) const {
  image_field(fields, "a random crop");
  return fields;
}

void RandomCrop::apply(Sample& sample, SampleRandom& random) const {
  const std::int64_t down = random.below(2 * padding_ + 1) - padding_,
                     right = random.below(2 * padding_ + 1) - padding_;
  const Tensor in = sample[images];
  Tensor out = sample.make(images, in.shape(), DType::u8);
  shift(down, right, in, out);
  sample.set(images, std::move(out));
}

SampleFields RandomFlip::describe(SampleFields fields) const {
  image_field(fields, "a random flip");
  return fields;
}

void RandomFlip::apply(Sample& sample, SampleRandom& random) const {
  if (random.below(2) == 1) flip_horizontally(sample[images]);
}

Normalize::Normalize(const std::vector<float>& mean, const std::vector<float>& deviation)
    : channels_(std::ssize(mean)) {
  expect(mean.size() == deviation.size() && channels_ > 0,
         "normalisation expects a mean and a deviation for each channel, got {} and {}", mean.size(), deviation.size());
  constexpr std::int64_t long_enough = 1024;  // values, for a vector loop
  for (std::int64_t pixel = 0; pixel == 0 || pixel * channels_ < long_enough; ++pixel)
    for (std::size_t c = 0; c < mean.size(); ++c) {
      scale_.push_back(static_cast<float>(1.0 / (255.0 * static_cast<double>(deviation[c]))));
      offset_.push_back(static_cast<float>(-static_cast<double>(mean[c]) / static_cast<double>(deviation[c])));
    }
}

SampleFields Normalize::describe(SampleFields fields) const {
  SampleField& field = image_field(fields, "normalisation");
  expect(field.shape[2] == channels_, "normalisation expects images of {} channels, got {}", channels_, field.shape);
  field.dtype = DType::f32;
  return fields;
}

void Normalize::apply(Sample& sample, SampleRandom&) const {
  const Tensor in = sample[images];
  Tensor out = sample.make(images, in.shape(), DType::f32);
  const std::uint8_t* from = in.data<const std::uint8_t>();
  float* to = out.data<float>();
  for (std::int64_t left = in.count(); left > 0;) {
    const std::int64_t count = std::min(left, std::ssize(scale_));
    const float* const scale = scale_.data();
    const float* const offset = offset_.data();
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale[i] + offset[i];
    from += count;
    to += count;
    left -= count;
  }
  sample.set(images, std::move(out));
}

std::span<const Augmentation> augmentations() {
  static constexpr std::array table{
      Augmentation{"none", [](const TransformOptions&) { return Transforms(); }},
      Augmentation{
          "crop_flip",
          [](const TransformOptions& options) {
            return Transforms{std::make_shared<RandomCrop>(options.crop_padding), std::make_shared<RandomFlip>()};
          }},
  };
  return table;
}

Transforms image_transforms(const DatasetInfo& source, const TransformOptions& options) {
  const Augmentation& augmentation = find_augmentation(options.augment);
  if (options.image_size < 0 || options.image_size > largest_side)
    reject("data.image_size: expected 0 (the data set's own) to {}, got {}", largest_side, options.image_size);
  if (options.crop_padding < 0 || options.crop_padding > largest_side)
    reject("data.crop_padding: expected 0 to {}, got {}", largest_side, options.crop_padding);
  const Shape& shape = field_of(source.fields, images).shape;
  Transforms all;
  if (options.crop_pct <= 0 || options.crop_pct > 1)
    reject("data.crop_pct: expected more than 0 and at most 1, got {}", options.crop_pct);
  const std::int64_t side = options.image_size == 0 ? std::min(shape[0], shape[1]) : options.image_size;
  if (options.crop_pct < 1) {
    // timm's ResizeKeepRatio to the floor of side / crop_pct, then CenterCrop.
    const auto scaled = static_cast<std::int64_t>(std::floor(static_cast<double>(side) / options.crop_pct));
    const std::int64_t shorter = std::min(shape[0], shape[1]);
    const auto to = [&](std::int64_t extent) { return scaled * extent / shorter; };
    all.push_back(std::make_shared<Resize>(shape, to(shape[0]), to(shape[1]), options.filter));
    all.push_back(std::make_shared<CenterCrop>(side));
  } else if (options.image_size != 0 && (shape[0] != side || shape[1] != side)) {
    all.push_back(std::make_shared<Resize>(shape, side, side, options.filter));
  }
  for (auto& one : augmentation.make(options)) all.push_back(std::move(one));
  all.push_back(std::make_shared<Normalize>(options.mean.empty() ? source.mean : options.mean,
                                            options.deviation.empty() ? source.deviation : options.deviation));
  return all;
}

void shift(std::int64_t down, std::int64_t right, const Tensor& in, const Tensor& out) {
  const std::int64_t height = in.shape()[0], width = in.shape()[1], channels = in.shape()[2];
  const std::int64_t out_height = out.shape()[0], out_width = out.shape()[1];
  const std::int64_t begin = std::clamp<std::int64_t>(-right, 0, out_width) * channels;  // where the image starts
  const std::int64_t end = std::clamp<std::int64_t>(width - right, 0, out_width) * channels;
  std::uint8_t* const to = out.data<std::uint8_t>();
  std::fill_n(to, out.count(), std::uint8_t{0});
  for (std::int64_t y = 0; y < out_height; ++y) {
    const std::int64_t from = y + down;
    if (from < 0 || from >= height || begin >= end) continue;
    std::copy_n(in.data<const std::uint8_t>() + from * width * channels + begin + right * channels, end - begin,
                to + y * out_width * channels + begin);
  }
}

void flip_horizontally(const Tensor& image) {
  const std::int64_t channels = image.shape()[2], row = image.shape()[1] * channels;
  for (std::int64_t y = 0; y < image.shape()[0]; ++y) {
    std::uint8_t* left = image.data<std::uint8_t>() + y * row;
    for (std::uint8_t* right = left + row - channels; left < right; left += channels, right -= channels)
      std::swap_ranges(left, left + channels, right);
  }
}

}  // namespace lacuna
