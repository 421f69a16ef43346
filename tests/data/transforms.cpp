#include "data/transforms.h"

#include "core/error.h"
#include "data/images/view.h"
#include "tests/data/small_dataset.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace lacuna {
namespace {

using Pixels = std::vector<std::uint8_t>;

Tensor image_of(std::int64_t height, std::int64_t width, std::int64_t channels, const Pixels& pixels) {
  Tensor image = Tensor::empty({height, width, channels}, DType::u8, Device::cpu);
  std::ranges::copy(pixels, image.data<std::uint8_t>());
  return image;
}

Pixels pixels_of(const Tensor& image) {
  return {image.data<std::uint8_t>(), image.data<std::uint8_t>() + image.count()};
}

DatasetInfo info_of(std::int64_t side, std::int64_t channels = 3) {
  DatasetInfo info{.name = "test",
                   .fields = image_fields(side, side, channels),
                   .classes = {"one"},
                   .mean = {0.25F, 0.5F, 0.75F},
                   .deviation = {0.5F, 0.25F, 0.2F}};
  info.mean.resize(static_cast<std::size_t>(channels));
  info.deviation.resize(static_cast<std::size_t>(channels));
  return info;
}

// The sample `images` after the transforms.
Tensor transformed(const Transforms& transforms, const Tensor& image, SampleRandom random = {1, 0, 0}) {
  Sample sample;
  sample.begin(0);
  sample.set("images", image.clone());
  apply(transforms, image_fields(1, 1, 1), sample, random);
  return sample["images"];
}

TEST_CASE("a flip mirrors pixels and leaves channels in order") {
  const Tensor odd = image_of(2, 3, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  flip_horizontally(odd);
  CHECK(pixels_of(odd) == Pixels{5, 6, 3, 4, 1, 2, 11, 12, 9, 10, 7, 8});
  const Tensor even = image_of(1, 4, 1, {1, 2, 3, 4});
  flip_horizontally(even);
  CHECK(pixels_of(even) == Pixels{4, 3, 2, 1});
}

TEST_CASE("a shift fills with black beyond the image") {
  const Pixels pixels{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto shifted = [&](std::int64_t down, std::int64_t right) {
    const Tensor image = image_of(3, 3, 1, pixels), out = empty_like(image);
    shift(down, right, image, out);
    return pixels_of(out);
  };
  CHECK(shifted(0, 0) == pixels);
  CHECK(shifted(1, 0) == Pixels{4, 5, 6, 7, 8, 9, 0, 0, 0});
  CHECK(shifted(0, -1) == Pixels{0, 1, 2, 0, 4, 5, 0, 7, 8});
  CHECK(shifted(-2, 2) == Pixels{0, 0, 0, 0, 0, 0, 3, 0, 0});
  CHECK(shifted(3, 0) == Pixels(9, 0));
  CHECK(shifted(0, -5) == Pixels(9, 0));
}

TEST_CASE("transforms without augmentation normalise") {
  const std::vector<double> out =
      transformed(image_transforms(info_of(1), {}), image_of(1, 1, 3, {0, 255, 51})).to_vector();
  CHECK(out[0] == doctest::Approx(-0.5));
  CHECK(out[1] == doctest::Approx(2.0));
  CHECK(out[2] == doctest::Approx((0.2 - 0.75) / 0.2));
}

TEST_CASE("normalisation treats the channels of a large image alike") {
  const Tensor image = image_of(40, 50, 3, Pixels(6000, 51));
  const std::vector<double> out = transformed(image_transforms(info_of(40), {}), image).to_vector();
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == out[i % 3]);
}

TEST_CASE("crop_flip yields each crop and flip, and its draws are those of seed, epoch and index") {
  DatasetInfo info = info_of(3, 1);
  info.mean = {0.0F};
  info.deviation = {1.0F / 255.0F};
  const Transforms transforms = image_transforms(info, {.image_size = 0, .augment = "crop_flip", .crop_padding = 1});
  const Tensor image = image_of(3, 3, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto seen = [&](std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
    std::vector<double> out = transformed(transforms, image, {seed, epoch, index}).to_vector();
    for (double& value : out) value = std::round(value);
    return out;
  };
  std::set<std::vector<double>> expected, got;
  for (std::int64_t down = -1; down <= 1; ++down) {
    for (std::int64_t right = -1; right <= 1; ++right) {
      const Tensor crop = empty_like(image);
      shift(down, right, image, crop);
      expected.insert(crop.to_vector());
      flip_horizontally(crop);
      expected.insert(crop.to_vector());
    }
  }
  for (std::int64_t index = 0; index < 400; ++index) {
    got.insert(seen(1, 0, index));
    CHECK(seen(1, 0, index) == seen(1, 0, index));
  }
  CHECK(expected.size() == 18);
  CHECK(got == expected);
  int changed_by_epoch = 0, changed_by_seed = 0;
  for (std::int64_t index = 0; index < 100; ++index) {
    changed_by_epoch += seen(1, 0, index) != seen(1, 1, index) ? 1 : 0;
    changed_by_seed += seen(1, 0, index) != seen(2, 0, index) ? 1 : 0;
  }
  CHECK(changed_by_epoch > 80);
  CHECK(changed_by_seed > 80);
}

TEST_CASE("resizing gives Pillow's bits") {
  // Image.fromarray(a).resize((width, height), Image.BILINEAR) of Pillow 13 for a = arange(5 * 7 * 3) * 37 % 256.
  std::vector<std::uint8_t> source(5 * 7 * 3);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint8_t>(i * 37 % 256);
  const auto resized = [&](std::int64_t width, std::int64_t height, ResizeFilter filter = ResizeFilter::bilinear) {
    const ResizeAxis rows(5, height, filter), columns(7, width, filter);
    Pixels out(static_cast<std::size_t>(height * width * 3));
    RowResizer resizer(rows, columns, 3, out.data(), width * 3);
    for (std::size_t y = 0; y < 5; ++y) resizer.push(source.data() + y * 7 * 3);
    return out;
  };
  CHECK(resized(7, 5) == source);
  CHECK(resized(4, 3) == std::vector<std::uint8_t>{62, 87,  124, 163, 67, 104, 132, 169, 73,  112, 149, 174,
                                                   76, 101, 138, 177, 81, 118, 146, 183, 87,  126, 163, 188,
                                                   83, 115, 152, 115, 95, 132, 160, 121, 101, 140, 170, 126});
  const std::vector<std::uint8_t> larger = resized(9, 8);
  const std::vector<std::uint8_t> third_row{10,  47,  84,  84, 121, 158, 170, 94, 131, 200, 38,  75,  87, 124,
                                            161, 173, 210, 48, 117, 154, 78,  90, 127, 164, 164, 201, 238};
  CHECK(std::vector(larger.begin() + 54, larger.begin() + 81) == third_row);
  CHECK(std::accumulate(larger.begin(), larger.end(), 0) == 27005);
  // The same with Image.BICUBIC.
  CHECK(resized(4, 3, ResizeFilter::bicubic) == std::vector<std::uint8_t>{57,  87,  124, 169, 64,  105, 129, 170, 65,
                                                                          110, 147, 177, 72,  102, 139, 189, 79,  120,
                                                                          144, 190, 80,  125, 162, 197, 83,  117, 154,
                                                                          116, 96,  135, 161, 117, 100, 140, 173, 124});
  const std::vector<std::uint8_t> cubic = resized(9, 8, ResizeFilter::bicubic);
  const std::vector<std::uint8_t> third_cubic{4,   42,  79,  77, 133, 170, 184, 97, 134, 212, 20,  62,  87, 124,
                                              161, 186, 228, 36, 114, 151, 64,  78, 115, 171, 169, 206, 243};
  CHECK(std::vector(cubic.begin() + 54, cubic.begin() + 81) == third_cubic);
  CHECK(std::accumulate(cubic.begin(), cubic.end(), 0) == 26918);
}

TEST_CASE("an evaluation crops the middle as timm does") {
  // timm.data.create_transform(4, interpolation='bilinear', crop_pct=.6) of timm 1.0.31 for the same image.
  Pixels source(5 * 7 * 3);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint8_t>(i * 37 % 256);
  DatasetInfo info = info_of(5);
  info.fields = image_fields(5, 7, 3);
  const Transforms transforms = image_transforms(
      info, {.image_size = 4, .mean = {0, 0, 0}, .deviation = {1 / 255.0F, 1 / 255.0F, 1 / 255.0F}, .crop_pct = 0.6});
  std::vector<double> out = transformed(transforms, image_of(5, 7, 3, source)).to_vector();
  for (double& value : out) value = std::round(value);
  CHECK(out == std::vector<double>{194, 55,  92,  147, 72,  109, 133, 170, 95,  150, 187, 48,  201, 62,  99,  154,
                                   79,  116, 140, 177, 102, 157, 194, 55,  209, 70,  107, 162, 87,  124, 148, 185,
                                   110, 165, 202, 63,  172, 77,  114, 141, 94,  131, 155, 164, 117, 172, 165, 70});
  CHECK_THROWS_AS(image_transforms(info, {.crop_pct = 1.5}), Error);
}

TEST_CASE("images of any number of channels are resized channel by channel") {
  for (const std::int64_t channels : {1, 2, 4, 5, 9}) {
    Pixels source(static_cast<std::size_t>(6 * 5 * channels));
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint8_t>(i * 37 % 256);
    const auto resized = [](const Pixels& from, std::int64_t count) {
      const Transforms view{std::make_shared<CenterView>(ViewOptions{.size = 3}, 1, CropMode::squash)};
      return pixels_of(transformed(view, image_of(6, 5, count, from)));
    };
    const Pixels all = resized(source, channels);
    for (std::int64_t c = 0; c < channels; ++c) {
      Pixels one;
      for (std::size_t i = 0; i < 30; ++i)
        one.push_back(source[i * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)]);
      const Pixels expected = resized(one, 1);
      for (std::size_t i = 0; i < 9; ++i)
        CHECK(all[i * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)] == expected[i]);
    }
  }
}

TEST_CASE("transforms resize to the size that the model wants") {
  const DatasetInfo info = info_of(2);
  const Transforms transforms = image_transforms(info, {.image_size = 5, .augment = "none"});
  const auto source =
      transform(std::make_shared<SmallDataset>(3), image_transforms(SmallDataset(3).info(), {.image_size = 5}), 1);
  CHECK(field_of(source->info().fields, "images").shape == Shape{5, 5, 3});
  const std::vector<double> out = transformed(transforms, image_of(2, 2, 3, Pixels(12, 51))).to_vector();
  REQUIRE(out.size() == 75);
  for (std::size_t i = 0; i < out.size(); i += 3) {
    CHECK(out[i] == doctest::Approx(-0.1));
    CHECK(out[i + 1] == doctest::Approx(-1.2));
    CHECK(out[i + 2] == doctest::Approx(-2.75));
  }
}

TEST_CASE("an unknown augmentation and impossible sizes are the input's fault") {
  for (const TransformOptions& options : {TransformOptions{.augment = "crop"}, TransformOptions{.image_size = -1},
                                          TransformOptions{.image_size = 1 << 20}, TransformOptions{.crop_padding = -1},
                                          TransformOptions{.scale = {0.5, 0.2}}, TransformOptions{.ratio = {1}},
                                          TransformOptions{.hflip = 2}, TransformOptions{.crop_mode = "middle"}}) {
    try {
      image_transforms(info_of(4), options);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::input);
    }
  }
  CHECK_THROWS_WITH(image_transforms(info_of(4), {.augment = "flipp"}), doctest::Contains("data.augment"));
}

TEST_CASE("transforms refuse fields that they cannot take") {
  const SampleField floats{.name = "images", .kind = FieldKind::pixels, .dtype = DType::f32, .shape = {4, 4, 3}};
  const SampleField text{.name = "ids", .dtype = DType::i64, .shape = {7}};
  for (const auto& transform : image_transforms(info_of(4), {.image_size = 8, .augment = "crop_flip"})) {
    CHECK_THROWS_AS(transform->describe(floats), Error);
    CHECK_THROWS_AS(transform->describe(text), Error);
  }
}

}  // namespace
}  // namespace lacuna
