#include "data/augment/photometric.h"
#include "data/images/scale_crop.h"
#include "data/segmentation/mask.h"
#include "tests/refusal.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace lacuna {
namespace {

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST_CASE("photometric distortion: each operation has OpenCV's bytes") {
  const nlohmann::json all =
      nlohmann::json::parse(std::ifstream(LACUNA_SOURCE_DIR "/tests/data/segmentation/photometric.json"));
  const std::vector<std::uint8_t> image = from_hex(all["image"]);
  const auto check = [&](const char* operation, std::int64_t most_different, const auto& change) {
    const nlohmann::json& cases = all[operation];
    REQUIRE(!cases.empty());
    for (const auto& [argument, expected] : cases.items()) {
      std::vector<std::uint8_t> pixels = image;
      change(augment::ImageView{pixels.data(), 10, 32, 3}, std::stof(argument));
      const std::vector<std::uint8_t> theirs = from_hex(expected);
      std::int64_t different = 0;
      for (std::size_t i = 0; i < pixels.size(); ++i) {
        CHECK(std::abs(pixels[i] - theirs[i]) <= 1);
        different += pixels[i] != theirs[i] ? 1 : 0;
      }
      CAPTURE(operation);
      CHECK(different <= most_different);
    }
  };
  check("shift", 0, [](const augment::ImageView& view, float shift) { augment::scale_and_shift(view, 1, shift); });
  check("factor", 0, [](const augment::ImageView& view, float factor) { augment::scale_and_shift(view, factor, 0); });
  // OpenCV fuses some multiplications and additions, which moves one value in some thousands.
  check("saturation", 3, [](const augment::ImageView& view, float factor) { augment::scale_saturation(view, factor); });
  check("hue", 3,
        [](const augment::ImageView& view, float steps) { augment::turn_hue(view, static_cast<int>(steps)); });
}

/// A picture whose pixels say where they are, and a mask that says the same.
struct Marked {
  SampleFields fields;
  Sample sample;

  Marked(std::int64_t height, std::int64_t width, auto&& label) {
    fields = {{.name = "picture", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {height, width, 1}},
              mask_field(250, height, width)};
    sample.begin(0);
    Tensor pixels = sample.make("picture", {height, width, 1}, DType::u8);
    Tensor mask = sample.make(fields[1].name, {height, width}, DType::u8);
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        pixels.data<std::uint8_t>()[y * width + x] = mask.data<std::uint8_t>()[y * width + x] =
            static_cast<std::uint8_t>(label(y, x));
    sample.set("picture", pixels);
    sample.set(fields[1].name, mask);
  }
  const std::uint8_t* pixels() { return sample["picture"].data<const std::uint8_t>(); }
  const std::uint8_t* mask() { return sample[fields[1].name].data<const std::uint8_t>(); }
  void apply(const Transform& transform, SampleRandom& random) {
    lacuna::apply({std::shared_ptr<const Transform>(&transform, [](const Transform*) {})}, fields, sample, random);
  }
};

ScaleCrop crop_of(std::int64_t side, const ScaleCrop::Ranges& ranges) {
  return {{.size = side, .channels = 1, .interpolation = Interpolation::nearest, .fill = {254}}, ranges};
}

TEST_CASE("scale_crop: the mask follows its image, and the padding counts for nothing") {
  for (std::int64_t draw = 0; draw < 200; ++draw) {
    const std::int64_t height = 9 + draw % 13, width = 7 + draw % 11;
    Marked marked(height, width, [&](auto y, auto x) { return (y * width + x) % 250; });
    SampleRandom random(1, 0, draw);
    marked.apply(crop_of(16, {.long_side = 40, .short_side = 14}), random);
    bool padded = false;
    for (std::int64_t i = 0; i < 16 * 16; ++i) {
      const bool is_outside = marked.mask()[i] == 255;
      padded = padded || is_outside;
      CHECK(marked.pixels()[i] == (is_outside ? 254 : marked.mask()[i]));
    }
    CHECK(marked.mask()[0] != 255);  // padded at the bottom and right alone, flipped or not
  }
}

TEST_CASE("scale_crop: images are fitted into both sides times a ratio") {
  const ScaleCrop crop = crop_of(512, {.long_side = 2048, .short_side = 512, .flip = 0});
  std::int64_t least = 1 << 20, most = 0;
  for (std::int64_t draw = 0; draw < 300; ++draw) {
    SampleRandom random(1, 0, draw);
    const View view = crop.view(600, 800, random);
    CHECK(std::abs(view.width * 3 - view.height * 4) <= 4);
    least = std::min(least, view.height);
    most = std::max(most, view.height);
    SampleRandom again(1, 0, draw);
    const View wide = crop.view(100, 1000, again);
    CHECK(wide.width <= 4096);
    CHECK(wide.top == 0);
    CHECK(wide.left + 512 <= std::max<std::int64_t>(wide.width, 512));
  }
  CHECK(least < 280);
  CHECK(most > 1000);
}

TEST_CASE("scale_crop: crops of one class are drawn again") {
  const auto mixed = [](double most_of_one_class) {
    int count = 0;
    for (std::int64_t draw = 0; draw < 100; ++draw) {
      // An eighth of the width is of another class, and a line does not count.
      Marked marked(64, 64, [](auto y, auto x) { return y == 0 ? 255 : x < 8 ? 1 : 0; });
      SampleRandom random(1, 0, draw);
      marked.apply(crop_of(16, {.least_ratio = 1,
                                .most_ratio = 1,
                                .long_side = 64,
                                .short_side = 64,
                                .most_of_one_class = most_of_one_class}),
                   random);
      const auto ones = std::count(marked.mask(), marked.mask() + 256, 1);
      const auto zeros = std::count(marked.mask(), marked.mask() + 256, 0);
      count +=
          ones > 0 && static_cast<double>(std::max(ones, zeros)) < 0.75 * static_cast<double>(ones + zeros) ? 1 : 0;
    }
    return count;
  };
  const int drawn_once = mixed(1), drawn_again = mixed(0.75);
  CHECK(drawn_once < 30);
  CHECK(drawn_again > 2 * drawn_once);
}

TEST_CASE("scale_crop and photometric: the options of a data set") {
  DatasetInfo info{.name = "pictures",
                   .fields = {{.name = "picture", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {20, 30, 3}},
                              mask_field(5, 20, 30)},
                   .mean = {0.5F, 0.5F, 0.5F},
                   .deviation = {0.2F, 0.2F, 0.2F}};
  const Transforms all =
      image_transforms(info, {.image_size = 16, .augment = "scale_crop", .pixels = {.photometric = true}});
  const SampleFields after = describe(all, info.fields);
  CHECK(after[0].shape == Shape{16, 16, 3});
  CHECK(after[1].shape == Shape{16, 16});
  CHECK(!test::refusal_of([&] { image_transforms(info, {.augment = "scale_crop", .scale_ratio = {2, 1}}); }).empty());
}

}  // namespace
}  // namespace lacuna
