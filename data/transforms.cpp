#include "data/transforms.h"

#include "core/error.h"
#include "core/schema_maps.h"
#include "data/augment/augment.h"
#include "data/images/scale_crop.h"
#include "data/images/view.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

namespace lacuna {
namespace {

/// Rejects other than u8 images.
void expect_image(const SampleField& image, std::string_view transform) {
  expect(image.kind == FieldKind::pixels && image.dtype == DType::u8 && image.shape.rank() == 3,
         "{} expects pixels u8 [H, W, C], got `{}` ({}) {} {}", transform, image.name, name_of(image.kind),
         name_of(image.dtype), image.shape);
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

SampleFields describe(const Transforms& transforms, SampleFields fields) {
  if (transforms.empty()) return fields;
  const SampleField* const image = find_images(fields);
  if (image == nullptr) fail("transforms expect samples with an image, got {}", to_string(fields));
  const bool followed = std::ranges::any_of(fields, follows_pixels, &SampleField::kind);
  SampleField pixels = *image;
  for (const auto& transform : transforms) {
    pixels = transform->describe(std::move(pixels));
    if (followed && !transform->can_be_followed())
      reject(
          "data.auto_augment: augmix blends images that moved in several ways, which no mask or box can follow; the "
          "samples have {}",
          to_string(fields));
  }
  return follow(std::move(fields), pixels);
}

void apply(const Transforms& transforms, const SampleFields& fields, Sample& sample, SampleRandom& random) {
  if (transforms.empty()) return;
  const bool followed = std::ranges::any_of(fields, follows_pixels, &SampleField::kind);
  SampleImage image(sample, find_images(fields)->name, find_field(fields, FieldKind::mask));
  for (const auto& transform : transforms) {
    const Geometry geometry = transform->apply(image, random);
    if (followed) follow(geometry, fields, sample);
  }
}

SampleField RandomCrop::describe(SampleField image) const {
  expect_image(image, "a random crop");
  return image;
}

Geometry RandomCrop::apply(SampleImage& image, SampleRandom& random) const {
  const std::int64_t down = random.below(2 * padding_ + 1) - padding_,
                     right = random.below(2 * padding_ + 1) - padding_;
  const Tensor in = image.tensor();
  Tensor out = image.make(in.shape(), DType::u8);
  shift(down, right, in, out);
  image.set(std::move(out));
  return moved_window({in.shape()[0], in.shape()[1]}, down, right);
}

SampleField RandomFlip::describe(SampleField image) const {
  expect_image(image, "a random flip");
  return image;
}

Geometry RandomFlip::apply(SampleImage& image, SampleRandom& random) const {
  if (random.uniform() >= probability_) return {};
  const Tensor& pixels = image.tensor();
  flip_horizontally(pixels);
  return moved_window({pixels.shape()[0], pixels.shape()[1]}, 0, 0, true);
}

Normalize::Normalize(const std::vector<float>& mean, const std::vector<float>& deviation)
    : channels_(std::ssize(mean)) {
  expect(mean.size() == deviation.size() && channels_ > 0,
         "normalisation expects a mean and a deviation for each channel, got {} and {}", mean.size(), deviation.size());
  constexpr std::int64_t long_enough = 1024;  // minimum number of values for a vectorized loop
  for (std::int64_t pixel = 0; pixel == 0 || pixel * channels_ < long_enough; ++pixel)
    for (std::size_t c = 0; c < mean.size(); ++c) {
      scale_.push_back(static_cast<float>(1.0 / (255.0 * static_cast<double>(deviation[c]))));
      offset_.push_back(static_cast<float>(-static_cast<double>(mean[c]) / static_cast<double>(deviation[c])));
    }
}

SampleField Normalize::describe(SampleField image) const {
  expect_image(image, "normalisation");
  expect(image.shape[2] == channels_, "normalisation expects images of {} channels, got {}", channels_, image.shape);
  image.dtype = DType::f32;
  return image;
}

Geometry Normalize::apply(SampleImage& image, SampleRandom&) const {
  const Tensor in = image.tensor();
  Tensor out = image.make(in.shape(), DType::f32);
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
  image.set(std::move(out));
  return {};
}

std::vector<float> Normalize::table() const {
  std::vector<float> table(scale_.begin(), scale_.begin() + channels_);
  table.insert(table.end(), offset_.begin(), offset_.begin() + channels_);
  return table;
}

std::array<std::pair<std::string_view, Interpolation>, 7> names_of(Interpolation) {
  return {{{"bilinear", Interpolation::bilinear},
           {"bicubic", Interpolation::bicubic},
           {"random", Interpolation::random},
           {"nearest", Interpolation::nearest},
           {"box", Interpolation::box},
           {"hamming", Interpolation::hamming},
           {"lanczos", Interpolation::lanczos}}};
}
ResizeFilter filter_of(Interpolation interpolation) { return from_name<ResizeFilter>(to_name(interpolation)).value(); }
std::array<std::pair<std::string_view, Decoding>, 2> names_of(Decoding) {
  return {{{"exact", Decoding::exact}, {"fast", Decoding::fast}}};
}
std::array<std::pair<std::string_view, ExifUse>, 2> names_of(ExifUse) {
  return {{{"ignore", ExifUse::ignore}, {"apply", ExifUse::apply}}};
}
std::array<std::pair<std::string_view, WideGrey>, 2> names_of(WideGrey) {
  return {{{"scale", WideGrey::scale}, {"clip", WideGrey::clip}}};
}
std::array<std::pair<std::string_view, PadColor>, 2> names_of(PadColor) {
  return {{{"mean", PadColor::mean}, {"black", PadColor::black}}};
}

Fields TransformOptions::fields() {
  using T = TransformOptions;
  const OnlyIf crops{"augment", {"random_resized_crop"}}, scales{"augment", {"scale_crop"}};
  const auto names = []() -> Names {
    Names all;
    for (const Augmentation& augmentation : augmentations()) all.emplace_back(augmentation.name);
    return all;
  };
  return Fields{
             field("image_size", &T::image_size, up_to(4096),
                   "image side in pixels, or [height, width]; 0: the model's own"),
             field("channels", &T::channels, between(0, 3),
                   "channels of decoded image files: 3 (RGB) or 1 (grey); 0: the model's"),
             field("mean", &T::mean, up_to(1),
                   "mean per channel, from 0 to 1, as `[0.5, 0.5, 0.5]`, that images are normalised with; empty: that "
                   "of the folder of `model.from`, the preset or else the data set"),
             field("std", &T::deviation, up_to(1), "standard deviation per channel, like `mean`"),
             field("interpolation", &T::interpolation,
                   "resize filter, Pillow's; `random`: `bilinear` or `bicubic` per training image, and `bicubic` in "
                   "evaluation; a folder and a preset have their own default"),
             field("crop_pct", &T::crop_pct, between(0.01, 1),
                   "evaluation: images are resized to the model's size / crop_pct, then centre-cropped; a folder and "
                   "a preset have their own default"),
             field("crop_mode", &T::crop_mode, one_of({"center", "squash", "border"}),
                   "evaluation: `center` resizes the shorter side, `squash` both sides, `border` the longer side and "
                   "pads with the mean colour; a folder, a preset and a task have their own default: "
                   "`squash` for masks, `border` for boxes"),
             field("augment", &T::augment, one_of(names), augments, "random crop and flip of training images"),
             field("crop_padding", &T::crop_padding, up_to(256), augments,
                   "zero padding in pixels on each side before a random crop"),
             field("scale", &T::scale, up_to(1), ItemCount{2, 2}, augments, crops,
                   "smallest and largest crop area, as a fraction of the image"),
             field("ratio", &T::ratio, between(0.001, 1000), ItemCount{2, 2}, augments, crops,
                   "smallest and largest aspect ratio"),
             field("hflip", &T::hflip, up_to(1), augments, OnlyIf{"augment", {}}, "probability of a horizontal flip"),
             field("scale_to", &T::scale_to, between(1, 65536), ItemCount{0, 2}, augments, scales,
                   "longer and shorter side into which images are fitted, times a ratio; empty: four times the model's "
                   "shorter side, and this side"),
             field("scale_ratio", &T::scale_ratio, between(0.01, 100), ItemCount{2, 2}, augments, scales,
                   "smallest and largest of these ratios"),
             field("cat_max_ratio", &T::cat_max_ratio, between(0.01, 1), augments, scales,
                   "draw another crop, up to ten times, while one class has this part of the mask's pixels; 1: never"),
             field("pad", &T::pad, augments, scales,
                   "colour beside images that are smaller than the crop; their masks do not count there"),
             field("decode", &T::decode,
                   "JPEG decoding; `fast` decodes large images at 1/2, 1/4 or 1/8 size if they shrink at least twice "
                   "as far, which changes pixels"),
             field("exif", &T::exif, "whether images are rotated by their EXIF orientation"),
             field("grey16", &T::grey16,
                   "16-bit grey images: `scale` to 8 bits, or `clip` at 255, as Pillow's convert does")} +
         rows_of(&T::pixels);
}

namespace {

std::shared_ptr<const Transform> scale_crop_of(const TransformOptions& options, const ViewOptions& view) {
  const std::int64_t side = std::min(view.size.height, view.size.width);
  const std::vector<std::int64_t>& to = options.scale_to;
  return std::make_shared<ScaleCrop>(view, ScaleCrop::Ranges{.least_ratio = options.scale_ratio[0],
                                                             .most_ratio = options.scale_ratio[1],
                                                             .long_side = to.empty() ? 4 * side : std::ranges::max(to),
                                                             .short_side = to.empty() ? side : std::ranges::min(to),
                                                             .most_of_one_class = options.cat_max_ratio,
                                                             .flip = options.hflip});
}

}  // namespace

std::span<const Augmentation> augmentations() {
  static constexpr std::array table{
      Augmentation{"none", nullptr, [](const TransformOptions&) { return Transforms(); }},
      Augmentation{"crop_flip", nullptr,
                   [](const TransformOptions& options) {
                     return Transforms{std::make_shared<RandomCrop>(options.crop_padding),
                                       std::make_shared<RandomFlip>(options.hflip)};
                   }},
      Augmentation{"random_resized_crop",
                   [](const TransformOptions& options, const ViewOptions& view) -> std::shared_ptr<const Transform> {
                     return std::make_shared<RandomResizedCrop>(
                         view, RandomResizedCrop::Ranges{.least_scale = options.scale[0],
                                                         .most_scale = options.scale[1],
                                                         .least_ratio = options.ratio[0],
                                                         .most_ratio = options.ratio[1],
                                                         .flip = options.hflip});
                   },
                   [](const TransformOptions&) { return Transforms(); }},
      Augmentation{"scale_crop", scale_crop_of, [](const TransformOptions&) { return Transforms(); }},
  };
  return table;
}

namespace {

void check(const TransformOptions& options) {
  check_values("data", options);
  for (const auto& [key, range] : {std::pair{"scale", &options.scale}, std::pair{"ratio", &options.ratio},
                                   std::pair{"scale_ratio", &options.scale_ratio}})
    if (range->front() <= 0 || range->front() > range->back())
      reject("data.{}: expected two numbers above 0, the smaller first, got [{}]", key, fmt::join(*range, ", "));
  if ((options.image_size.height == 0) != (options.image_size.width == 0))
    reject("data.image_size: expected 0 (the data set's own) or two sides above 0, got [{}, {}]",
           options.image_size.height, options.image_size.width);
}

/// The first transform, which makes images of the model's size. Null if the data set's images already are.
std::shared_ptr<const Transform> view_of(const SampleFields& fields, const std::vector<float>& mean,
                                         const TransformOptions& options) {
  const Augmentation& augmentation = find_augmentation(options.augment);
  const SampleField* const image = find_images(fields);
  if (image == nullptr) fail("transforms expect samples with an image, got {}", to_string(fields));
  const bool files = image->kind == FieldKind::image_file;
  const Shape shape = files ? Shape{0, 0, pixel_channels(fields, options)} : image->shape;
  const bool given = options.image_size.is_given();
  if (files && !given) reject("data.image_size: expected the side of the images, got 0");
  ViewOptions view{
      .size = given ? options.image_size : ImageSize(std::min(shape[0], shape[1])),
      .channels = shape[2],
      .interpolation = options.interpolation,
      .decode = {.apply_exif = options.exif == ExifUse::apply, .scale_grey = options.grey16 == WideGrey::scale},
      .fast = options.decode == Decoding::fast};
  const bool pads_black = options.augment == "scale_crop" && options.pad == PadColor::black;
  for (const float value : mean)
    view.fill.push_back(pads_black ? std::uint8_t{0} : static_cast<std::uint8_t>(std::nearbyint(255 * value)));
  if (augmentation.view != nullptr) return augmentation.view(options, view);
  const CropMode mode = crop_mode_of(options.crop_mode);
  const bool fits = !given || ImageSize(shape[0], shape[1]) == view.size;
  if (!files && options.crop_pct == 1 && fits) return nullptr;
  return std::make_shared<CenterView>(view, options.crop_pct, mode);
}

}  // namespace

std::int64_t pixel_channels(const SampleFields& fields, const TransformOptions& options) {
  const SampleField* const image = find_images(fields);
  if (image == nullptr) return 0;
  constexpr std::int64_t rgb = 3;
  if (image->kind != FieldKind::image_file) return image->shape.back();
  return options.channels == 0 ? rgb : options.channels;
}

Transforms image_transforms(const DatasetInfo& source, const TransformOptions& options) {
  check(options);
  const std::int64_t channels = pixel_channels(source.fields, options);
  const auto given_or = [&](const std::vector<double>& given, const std::vector<float>& own) {
    if (!given.empty()) return std::vector<float>(given.begin(), given.end());
    if (channels != 1 || own.size() <= 1) return own;
    return std::vector<float>{std::accumulate(own.begin(), own.end(), 0.0F) / static_cast<float>(own.size())};
  };
  const std::vector<float> mean = given_or(options.mean, source.mean);
  Transforms all;
  if (auto view = view_of(source.fields, mean, options)) all.push_back(std::move(view));
  for (auto& one : find_augmentation(options.augment).make(options)) all.push_back(std::move(one));
  for (auto& one : augment::before_normalization(options.pixels, mean, options.interpolation))
    all.push_back(std::move(one));
  all.push_back(std::make_shared<Normalize>(mean, given_or(options.deviation, source.deviation)));
  for (auto& one : augment::after_normalization(options.pixels)) all.push_back(std::move(one));
  return all;
}

SplitTransforms split_at_f32(Transforms transforms, const SampleFields& fields) {
  auto cut = transforms.begin();
  const SampleField* const image = find_images(fields);
  if (image == nullptr)
    expect(transforms.empty(), "transforms expect samples with an image, got {}", to_string(fields));
  for (SampleField pixels = image == nullptr ? SampleField() : *image; cut != transforms.end(); ++cut) {
    pixels = (*cut)->describe(std::move(pixels));
    if (pixels.dtype == DType::f32) break;
  }
  SplitTransforms split;
  split.late.assign(std::make_move_iterator(cut), std::make_move_iterator(transforms.end()));
  transforms.erase(cut, transforms.end());
  split.early = std::move(transforms);
  return split;
}

void shift(std::int64_t down, std::int64_t right, const Tensor& in, const Tensor& out) {
  const std::int64_t height = in.shape()[0], width = in.shape()[1], channels = in.shape()[2];
  const std::int64_t out_height = out.shape()[0], out_width = out.shape()[1];
  const std::int64_t begin =
      std::clamp<std::int64_t>(-right, 0, out_width) * channels;  // first output value inside the image
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
