#include "data/augment/photometric.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lacuna::augment {
namespace {

constexpr int hues = 180;  // of OpenCV's bytes, 2 degrees each

struct Hsv {
  int hue, saturation, value;
};

/// OpenCV's COLOR_RGB2HSV of bytes, in 12-bit fractions.
Hsv to_hsv(const std::uint8_t* rgb) {
  constexpr int shift = 12, half = 1 << (shift - 1);
  static const auto quotients = [](double numerator) {
    std::array<int, 256> table{};
    for (int i = 1; i < 256; ++i) table[static_cast<std::size_t>(i)] = static_cast<int>(std::nearbyint(numerator / i));
    return table;
  };
  static const std::array<int, 256> per_value = quotients(255 << shift), per_range = quotients((hues << shift) / 6.0);
  const int red = rgb[0], green = rgb[1], blue = rgb[2];
  const int high = std::max({red, green, blue}), range = high - std::min({red, green, blue});
  const int turn = high == red ? green - blue : high == green ? blue - red + 2 * range : red - green + 4 * range;
  const int hue = (turn * per_range[static_cast<std::size_t>(range)] + half) >> shift;
  return {hue < 0 ? hue + hues : hue, (range * per_value[static_cast<std::size_t>(high)] + half) >> shift, high};
}

/// OpenCV's COLOR_HSV2RGB of bytes. Its vectors truncate; what is left of a row, which it rounds, is truncated too.
void to_rgb(const Hsv& hsv, std::uint8_t* rgb) {
  const float saturation = static_cast<float>(hsv.saturation) * (1 / 255.0F),
              value = static_cast<float>(hsv.value) * (1 / 255.0F);
  const float sixths = static_cast<float>(hsv.hue) * (6.0F / hues);
  const int sector = static_cast<int>(sixths);
  const float rest = sixths - static_cast<float>(sector);
  const auto byte = [](float x) { return static_cast<std::uint8_t>(std::clamp(x * 255.0F, 0.0F, 255.0F)); };
  const std::uint8_t v = byte(value), p = byte(value * (1 - saturation)), q = byte(value * (1 - saturation * rest)),
                     t = byte(value * (1 - saturation * (1 - rest)));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors{
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::ranges::copy(sectors[static_cast<std::size_t>(sector % 6)], rgb);
}

std::uint8_t scaled(int value, float factor, float shift) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<float>(value) * factor + shift, 0.0F, 255.0F));
}

void each_color(const ImageView& image, auto&& change) {
  if (image.channels != 3) return;
  for (std::uint8_t* rgb = image.pixels; rgb < image.pixels + image.bytes(); rgb += 3) {
    Hsv hsv = to_hsv(rgb);
    change(hsv);
    to_rgb(hsv, rgb);
  }
}

}  // namespace

void scale_and_shift(const ImageView& image, float factor, float shift) {
  std::array<std::uint8_t, 256> table{};
  for (int i = 0; i < 256; ++i) table[static_cast<std::size_t>(i)] = scaled(i, factor, shift);
  for (std::int64_t i = 0; i < image.bytes(); ++i) image.pixels[i] = table[image.pixels[i]];
}

void scale_saturation(const ImageView& image, float factor) {
  each_color(image, [&](Hsv& hsv) { hsv.saturation = scaled(hsv.saturation, factor, 0); });
}

void turn_hue(const ImageView& image, int steps) {
  each_color(image, [&](Hsv& hsv) { hsv.hue = (hsv.hue + steps + hues) % hues; });
}

Geometry PhotometricDistortion::apply(SampleImage& image, SampleRandom& random) const {
  constexpr double brightest = 32, least = 0.5, most = 1.5;
  constexpr int farthest = 18;
  const ImageView pixels = view_of(image.tensor());
  const auto is_drawn = [&] { return random.below(2) == 1; };
  const auto factor = [&] { return static_cast<float>(random.uniform(least, most)); };
  const auto contrast = [&] {
    if (is_drawn()) scale_and_shift(pixels, factor(), 0);
  };
  if (is_drawn()) scale_and_shift(pixels, 1, static_cast<float>(random.uniform(-brightest, brightest)));
  const bool contrast_first = is_drawn();
  if (contrast_first) contrast();
  if (is_drawn()) scale_saturation(pixels, factor());
  if (is_drawn()) turn_hue(pixels, static_cast<int>(random.below(2 * farthest)) - farthest);  // below 18, as numpy's
  if (!contrast_first) contrast();
  return {};
}

}  // namespace lacuna::augment
