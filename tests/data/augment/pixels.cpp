// The operations on pixels, to the bits of Pillow, timm and torchvision (../make_augment_references.py).
#include "data/augment/affine.h"
#include "data/augment/colors.h"
#include "data/augment/filters.h"
#include "data/augment/tones.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace lacuna::augment {
namespace {

struct Image {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * channels));

  ImageView view() { return {pixels.data(), height, width, channels}; }
};

Image drawn(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Image image{height, width, channels};
  std::size_t next = 0;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t smooth = (x * x * 3 + y * y * 5 + x * y * 7 + c * 300) >> 3;
        const std::int64_t rough = (x * 131 + y * 71 + c * 57) * 37;
        image.pixels[next++] = static_cast<std::uint8_t>((x + y) % 7 < 5 ? smooth : rough);
      }
  return image;
}

Image extreme(std::int64_t height, std::int64_t width) {
  Image image = drawn(height, width, 3);
  for (std::uint8_t& value : image.pixels) value = value < 128 ? 0 : 255;
  return image;
}

Image pixel() {
  Image image = drawn(1, 1, 3);
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(value + 77);
  return image;
}

const std::map<std::string, Image> images{
    {"odd", drawn(5, 7, 3)},
    {"grey", drawn(4, 5, 1)},
    {"pixel", pixel()},
    {"row", drawn(1, 6, 3)},
    {"column", drawn(6, 1, 3)},
    {"extreme", extreme(4, 6)},
    {"flat", {.height = 3, .width = 4, .channels = 3, .pixels = std::vector<std::uint8_t>(36, 200)}},
    {"large", drawn(53, 61, 3)},
    {"large grey", drawn(64, 40, 1)},
};

const std::map<std::string, Image (*)(Image, double)> operations{
    {"auto_contrast", [](Image image, double) { return auto_contrast(image.view()), image; }},
    {"equalize", [](Image image, double) { return equalize(image.view()), image; }},
    {"invert", [](Image image, double) { return invert(image.view()), image; }},
    {"solarize", [](Image image, double a) { return solarize(image.view(), static_cast<int>(a)), image; }},
    {"solarize_add", [](Image image, double a) { return solarize_add(image.view(), static_cast<int>(a)), image; }},
    {"posterize", [](Image image, double a) { return posterize(image.view(), static_cast<int>(a)), image; }},
    {"saturation", [](Image image, double a) { return saturation(image.view(), static_cast<float>(a)), image; }},
    {"contrast", [](Image image, double a) { return contrast(image.view(), static_cast<float>(a)), image; }},
    {"brightness", [](Image image, double a) { return brightness(image.view(), static_cast<float>(a)), image; }},
    {"hue", [](Image image, double a) { return hue(image.view(), a), image; }},
    {"sharpness",
     [](Image image, double a) {
       Image out = image;
       return sharpness(image.view(), out.view(), static_cast<float>(a)), out;
     }},
    {"gaussian_blur",
     [](Image image, double a) {
       Image scratch = image;
       return gaussian_blur(image.view(), scratch.view(), static_cast<float>(a)), image;
     }},
};

const std::map<std::string, Affine (*)(const ImageView&, double)> maps{
    {"rotate", [](const ImageView& image, double a) { return rotation(image, a); }},
    {"shear_x", [](const ImageView&, double a) { return Affine{.xy = a}; }},
    {"shear_y", [](const ImageView&, double a) { return Affine{.yx = a}; }},
    {"translate_x",
     [](const ImageView& image, double a) { return Affine{.x0 = a * static_cast<double>(image.width)}; }},
    {"translate_y",
     [](const ImageView& image, double a) { return Affine{.y0 = a * static_cast<double>(image.height)}; }},
};

std::string written(const std::vector<std::uint8_t>& pixels) {
  std::string text;
  if (pixels.size() <= 120) {
    for (const std::uint8_t value : pixels) text += fmt::format("{:02x}", value);
    return text;
  }
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::uint8_t value : pixels) hash = (hash ^ value) * 0x100000001B3U;
  return fmt::format("#{:016x}", hash);
}

TEST_CASE("operations on pixels give Pillow's bits") {
  const nlohmann::json references =
      nlohmann::json::parse(std::ifstream(LACUNA_SOURCE_DIR "/tests/data/augment/references.json"));
  REQUIRE(!references["pixels"].empty());
  constexpr std::array<std::uint8_t, 3> fill{124, 116, 104};
  for (const nlohmann::json& one : references["pixels"]) {
    const std::string operation = one["operation"];
    CAPTURE(one.dump());
    const double argument = one["argument"];
    Image image = images.at(one["image"]);
    if (one.contains("filter")) {
      std::vector<std::uint32_t> scratch(static_cast<std::size_t>(image.height * image.width));
      transform(maps.at(operation)(image.view(), argument),
                one["filter"] == "bicubic" ? ResizeFilter::bicubic : ResizeFilter::bilinear, fill, image.view(),
                scratch);
      CHECK(written(image.pixels) == one["pixels"]);
    } else {
      CHECK(written(operations.at(operation)(image, argument).pixels) == one["pixels"]);
    }
  }
}

TEST_CASE("no bits to keep give black, whatever Pillow's version does") {
  for (const int bits : {0, -3}) {
    Image image = images.at("odd");
    posterize(image.view(), bits);
    CHECK(std::ranges::count(image.pixels, 0) == std::ssize(image.pixels));
  }
}

}  // namespace
}  // namespace lacuna::augment
