#include "apps/output/drawing.h"

#include "data/detection/boxes.h"
#include "data/segmentation/palette.h"
#include "models/prediction.h"

#include <algorithm>
#include <cmath>
#include <cstdio>  // stb_easy_font.h takes it as given
#include <cstdlib>
#include <map>
#include <ranges>
#include <span>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include <stb_easy_font.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace lacuna::apps {
namespace {

/// A rectangle of pixels, its right and bottom sides excluded.
struct Pixels {
  std::int64_t left, top, right, bottom;
};

/// Fills what lies in a picture u8 [H, W, 3].
void fill(const Tensor& picture, Pixels area, Rgb color) {
  const std::int64_t height = picture.shape()[0], width = picture.shape()[1];
  for (std::int64_t y = std::max<std::int64_t>(area.top, 0); y < std::min(area.bottom, height); ++y)
    for (std::int64_t x = std::max<std::int64_t>(area.left, 0); x < std::min(area.right, width); ++x)
      std::ranges::copy(color, picture.data<std::uint8_t>() + (y * width + x) * 3);
}

std::string ascii(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0U) != 0x80U) shown += byte >= ' ' && byte < 0x7F ? c : '?';  // one for each letter of UTF-8
  }
  return shown;
}

// In pixels of stb_easy_font's letters.
constexpr std::int64_t line = 10, margin = 1;

std::int64_t scale_of(const Tensor& picture) { return 1 + std::min(picture.shape()[0], picture.shape()[1]) / 500; }
std::int64_t label_height(const Tensor& picture) { return (line + 2 * margin) * scale_of(picture); }

/// Draws the outline of a box (left, top, right, bottom, in pixels) into a picture u8 [H, W, 3].
void draw_box(const Tensor& picture, std::span<const double> box, Rgb color) {
  const std::int64_t height = picture.shape()[0], width = picture.shape()[1], thick = 1 + std::min(height, width) / 200;
  const auto at = [](double side, std::int64_t count) {
    return std::clamp<std::int64_t>(std::llround(side), 0, count);
  };
  const Pixels area{at(box[0], width), at(box[1], height), at(box[2], width), at(box[3], height)};
  fill(picture, {area.left, area.top, area.right, std::min(area.top + thick, area.bottom)}, color);
  fill(picture, {area.left, std::max(area.bottom - thick, area.top), area.right, area.bottom}, color);
  fill(picture, {area.left, area.top, std::min(area.left + thick, area.right), area.bottom}, color);
  fill(picture, {std::max(area.right - thick, area.left), area.top, area.right, area.bottom}, color);
}

/// Writes a text on a ground of this colour, its top left corner at `x`, `y` or as near as it fits into the picture
/// u8 [H, W, 3].
void draw_label(const Tensor& picture, double x, double y, const std::string& text, Rgb ground) {
  constexpr std::size_t most_letters = 64;
  std::string shown = ascii(text).substr(0, most_letters);
  const std::int64_t scale = scale_of(picture), height = label_height(picture),
                     width = (stb_easy_font_width(shown.data()) + 2 * margin) * scale;
  const auto begin = [](double side, std::int64_t own, std::int64_t all) {
    return std::clamp<std::int64_t>(std::llround(side), 0, std::max<std::int64_t>(all - own, 0));
  };
  const std::int64_t left = begin(x, width, picture.shape()[1]), top = begin(y, height, picture.shape()[0]);
  fill(picture, {left, top, left + width, top + height}, ground);
  struct Corner {
    float x, y, z;
    std::array<unsigned char, 4> color;
  };
  constexpr std::size_t most_corners = most_letters * 64;  // 270 bytes a letter, says the header; 16 each
  std::vector<Corner> corners(most_corners);
  const int strokes = stb_easy_font_print(0, 0, shown.data(), nullptr, corners.data(),
                                          static_cast<int>(corners.size() * sizeof(Corner)));
  constexpr double darkest = 128 * 1000;
  const bool is_light = 299 * ground[0] + 587 * ground[1] + 114 * ground[2] > darkest;
  const std::uint8_t ink = is_light ? 0 : 255;
  for (int i = 0; i < strokes; ++i) {
    const Corner &first = corners[static_cast<std::size_t>(4 * i)],
                 &third = corners[static_cast<std::size_t>(4 * i + 2)];
    const auto place = [&](std::int64_t from, float at) {
      return from + (static_cast<std::int64_t>(at) + margin) * scale;
    };
    fill(picture, {place(left, first.x), place(top, first.y), place(left, third.x), place(top, third.y)},
         {ink, ink, ink});
  }
}

}  // namespace

Tensor with_boxes(const Tensor& picture, const std::vector<DrawnBox>& boxes, const std::vector<std::string>& classes) {
  Tensor drawn = picture.clone();
  std::map<std::string, std::int64_t> numbers;
  for (const std::string& name : classes) numbers.try_emplace(name, std::ssize(numbers) + 1);
  for (const DrawnBox& box : boxes) numbers.try_emplace(box.name, std::ssize(numbers) + 1);
  for (const DrawnBox& box : std::views::reverse(boxes)) {
    const Rgb color = class_color(numbers.at(box.name));
    draw_box(drawn, box.corners, color);
    const auto above = static_cast<double>(label_height(drawn));
    draw_label(drawn, box.corners[0], box.corners[1] - above, box.text, color);
  }
  return drawn;
}

std::vector<DrawnBox> true_boxes(const Batch& batch, std::int64_t row, const std::vector<std::string>& classes) {
  std::vector<DrawnBox> drawn;
  for (const ObjectBox& box : boxes_of(batch, row)) {
    const std::string name = class_name(classes, box.label);
    drawn.push_back({.corners = box.corners, .name = name, .text = name});
  }
  return drawn;
}

Tensor with_classes(const Tensor& picture, const Tensor& classes, const std::vector<std::string>& names,
                    std::int64_t left_out) {
  Tensor drawn = overlay(picture, classes, left_out);
  std::int64_t y = 0;
  for (const ClassShare& one : class_shares(classes)) {
    if (one.number == left_out || one.share < 0.01) continue;
    draw_label(drawn, 0, static_cast<double>(y), class_name(names, one.number), class_color(one.number));
    y += label_height(drawn);
    if (y >= drawn.shape()[0]) break;
  }
  return drawn;
}

}  // namespace lacuna::apps
