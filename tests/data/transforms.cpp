#include "data/transforms.h"

#include "core/error.h"
#include "tests/data/small_dataset.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace lacuna {
namespace {

ImageBuffer image_of(std::int64_t height, std::int64_t width, std::int64_t channels, std::vector<std::uint8_t> pixels) {
  return {.height = height, .width = width, .channels = channels, .pixels = std::move(pixels), .spare = {}};
}

DatasetInfo info_of(std::int64_t side) {
  return {.name = "test",
          .classes = {"one"},
          .height = side,
          .width = side,
          .channels = 3,
          .mean = {0.25F, 0.5F, 0.75F},
          .deviation = {0.5F, 0.25F, 0.2F}};
}

TEST_CASE("a flip turns pixels round and leaves channels in order") {
  ImageBuffer odd = image_of(2, 3, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  flip_horizontally(odd);
  CHECK(odd.pixels == std::vector<std::uint8_t>{5, 6, 3, 4, 1, 2, 11, 12, 9, 10, 7, 8});
  ImageBuffer even = image_of(1, 4, 1, {1, 2, 3, 4});
  flip_horizontally(even);
  CHECK(even.pixels == std::vector<std::uint8_t>{4, 3, 2, 1});
}

TEST_CASE("a shift brings black in from beyond the image") {
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto shifted = [&](std::int64_t down, std::int64_t right) {
    ImageBuffer image = image_of(3, 3, 1, pixels);
    shift(down, right, image);
    return image.pixels;
  };
  CHECK(shifted(0, 0) == pixels);
  CHECK(shifted(1, 0) == std::vector<std::uint8_t>{4, 5, 6, 7, 8, 9, 0, 0, 0});
  CHECK(shifted(0, -1) == std::vector<std::uint8_t>{0, 1, 2, 0, 4, 5, 0, 7, 8});
  CHECK(shifted(-2, 2) == std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 3, 0, 0});
  CHECK(shifted(3, 0) == std::vector<std::uint8_t>(9, 0));
  CHECK(shifted(0, -5) == std::vector<std::uint8_t>(9, 0));
}

TEST_CASE("a transform without augmentation normalises") {
  const Transform transform(info_of(1), {});
  ImageBuffer image = image_of(1, 1, 3, {0, 255, 51});
  float out[3];
  transform(image, {1, 0, 0}, out);
  CHECK(out[0] == doctest::Approx(-0.5));
  CHECK(out[1] == doctest::Approx(2.0));
  CHECK(out[2] == doctest::Approx((0.2 - 0.75) / 0.2));
}

TEST_CASE("crop_flip yields each crop and flip, and its draws are those of seed, epoch and index") {
  DatasetInfo info = info_of(3);
  info.channels = 1;
  info.mean = {0.0F};
  info.deviation = {1.0F / 255.0F};
  const Transform transform(info, {.image_size = 0, .augment = "crop_flip", .crop_padding = 1});
  const auto seen = [&](std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
    ImageBuffer image = image_of(3, 3, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    std::vector<float> out(9);
    transform(image, {seed, epoch, index}, out.data());
    for (float& value : out) value = std::round(value);
    return out;
  };
  std::set<std::vector<float>> expected, got;
  for (std::int64_t down = -1; down <= 1; ++down) {
    for (std::int64_t right = -1; right <= 1; ++right) {
      ImageBuffer image = image_of(3, 3, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9});
      shift(down, right, image);
      expected.insert({image.pixels.begin(), image.pixels.end()});
      flip_horizontally(image);
      expected.insert({image.pixels.begin(), image.pixels.end()});
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
  const auto resized = [&](std::int64_t width, std::int64_t height) {
    ImageBuffer image = image_of(5, 7, 3, source);
    resize(BilinearAxis(5, height), BilinearAxis(7, width), image);
    CHECK(image.height == height);
    CHECK(image.width == width);
    return image.pixels;
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
}

TEST_CASE("a transform resizes to the size that the model wants") {
  DatasetInfo info = info_of(2);
  const Transform transform(info, {.image_size = 5, .augment = "none"});
  CHECK(transform.height() == 5);
  CHECK(transform.width() == 5);
  ImageBuffer image = image_of(2, 2, 3, std::vector<std::uint8_t>(12, 51));
  std::vector<float> out(75);
  transform(image, {1, 0, 0}, out.data());
  for (std::size_t i = 0; i < out.size(); i += 3) {
    CHECK(out[i] == doctest::Approx(-0.1));
    CHECK(out[i + 1] == doctest::Approx(-1.2));
    CHECK(out[i + 2] == doctest::Approx(-2.75));
  }
}

TEST_CASE("an unknown augmentation and impossible sizes are the input's fault") {
  for (const TransformOptions& options :
       {TransformOptions{.augment = "crop"}, TransformOptions{.image_size = -1},
        TransformOptions{.image_size = 1 << 20}, TransformOptions{.crop_padding = -1}}) {
    try {
      const Transform refused(info_of(4), options);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::input);
    }
  }
  CHECK_THROWS_WITH(Transform(info_of(4), {.augment = "flipp"}),
                    "data.augment: expected one of none, crop_flip; got 'flipp'");
}

}  // namespace
}  // namespace lacuna
