#include "data/augment/colors.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lacuna::augment {
namespace {

/// ITU-R 601-2 luma with 16 fractional bits.
inline int luma(const std::uint8_t* rgb) { return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16; }

std::uint8_t to_byte(int value) { return static_cast<std::uint8_t>(std::clamp(value, 0, 255)); }

/// Pillow's conversion to HSV; its mix of types is kept for identical rounding.
std::array<std::uint8_t, 3> to_hsv(const std::uint8_t* rgb) {
  const int high = std::max({rgb[0], rgb[1], rgb[2]}), low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return {0, 0, static_cast<std::uint8_t>(high)};
  const auto range = static_cast<float>(high - low);
  const float saturation = range / static_cast<float>(high);
  const float red = static_cast<float>(high - rgb[0]) / range, green = static_cast<float>(high - rgb[1]) / range,
              blue = static_cast<float>(high - rgb[2]) / range;
  float turn = 0;  // hue in sixths of a turn
  if (rgb[0] == high)
    turn = blue - green;
  else if (rgb[1] == high)
    turn = static_cast<float>(2.0 + static_cast<double>(red) - static_cast<double>(blue));
  else
    turn = static_cast<float>(4.0 + static_cast<double>(green) - static_cast<double>(red));
  turn = static_cast<float>(std::fmod(static_cast<double>(turn) / 6.0 + 1.0, 1.0));
  return {to_byte(static_cast<int>(static_cast<double>(turn) * 255.0)),
          to_byte(static_cast<int>(static_cast<double>(saturation) * 255.0)), static_cast<std::uint8_t>(high)};
}

void to_rgb(const std::array<std::uint8_t, 3>& hsv, std::uint8_t* rgb) {
  const std::uint8_t value = hsv[2];
  if (hsv[1] == 0) {
    std::fill_n(rgb, 3, value);
    return;
  }
  const double sixths = static_cast<double>(hsv[0]) * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const auto rest = static_cast<float>(sixths - static_cast<double>(static_cast<float>(sector)));
  const auto saturation = static_cast<float>(static_cast<double>(hsv[1]) / 255.0);
  const auto scaled = [&](double factor) { return to_byte(static_cast<int>(std::round(value * factor))); };
  const std::uint8_t p = scaled(1.0 - static_cast<double>(saturation));
  const std::uint8_t q = scaled(1.0 - static_cast<double>(saturation * rest));
  const std::uint8_t t = scaled(1.0 - static_cast<double>(saturation) * (1.0 - static_cast<double>(rest)));
  const std::array<std::array<std::uint8_t, 3>, 6> sectors{
      {{value, t, p}, {q, value, p}, {p, value, t}, {p, q, value}, {t, p, value}, {value, p, q}}};
  std::ranges::copy(sectors[static_cast<std::size_t>(sector % 6)], rgb);
}

}  // namespace

double mean_luma(const ImageView& image) {
  const std::int64_t pixels = image.height * image.width;
  std::int64_t sum = 0;
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* const row = image.row(y);
    std::int32_t of_row = 0;
    if (image.channels == 1)
      for (std::int64_t x = 0; x < image.width; ++x) of_row += row[x];
    else
      for (std::int64_t x = 0; x < image.width; ++x) of_row += luma(row + 3 * x);
    sum += of_row;
  }
  return static_cast<double>(sum) / static_cast<double>(pixels);
}

void saturation(const ImageView& image, float factor) {
  if (image.channels != 3) return;
  std::uint8_t* const pixels = image.pixels;
  const std::int64_t count = image.height * image.width;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t* const rgb = pixels + 3 * i;
    const auto grey = static_cast<float>(luma(rgb));
    rgb[0] = blend(grey, rgb[0], factor);
    rgb[1] = blend(grey, rgb[1], factor);
    rgb[2] = blend(grey, rgb[2], factor);
  }
}

void hue(const ImageView& image, double factor) {
  if (image.channels != 3) return;
  const int shift = static_cast<int>(factor * 255);
  for (std::uint8_t* rgb = image.pixels; rgb != image.pixels + image.bytes(); rgb += 3) {
    std::array<std::uint8_t, 3> hsv = to_hsv(rgb);
    hsv[0] = static_cast<std::uint8_t>(hsv[0] + shift);
    to_rgb(hsv, rgb);
  }
}

}  // namespace lacuna::augment
