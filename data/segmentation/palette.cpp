#include "data/segmentation/palette.h"

#include "core/error.h"

#include <algorithm>
#include <functional>
#include <map>

namespace lacuna {
namespace {

void each_class(const Tensor& classes, auto&& use) {
  const auto visit = [&]<class T>(const T* from) {
    for (std::int64_t i = 0; i < classes.count(); ++i) use(i, static_cast<std::int64_t>(from[i]));
  };
  if (classes.dtype() == DType::u8)
    visit(classes.data<const std::uint8_t>());
  else if (classes.dtype() == DType::i32)
    visit(classes.data<const std::int32_t>());
  else
    visit(classes.data<const std::int64_t>());
}

}  // namespace

Rgb class_color(std::int64_t number) {
  Rgb color{};
  // Three bits at a time, the lowest ones to the highest bits of red, green and blue.
  for (int bit = 7; bit >= 0; --bit, number >>= 3)
    for (unsigned c = 0; c < 3; ++c) color[c] = static_cast<std::uint8_t>(color[c] | (number >> c & 1) << bit);
  return color;
}

void write_classes(const std::filesystem::path& path, const Tensor& classes, std::int64_t first) {
  constexpr std::int64_t colors = 256, numbers = 65536;
  std::int64_t largest = 0;
  each_class(classes, [&](std::int64_t, std::int64_t value) { largest = std::max(largest, value + first); });
  expect(largest < numbers, "a mask has {} classes at most, got {}", numbers, largest + 1);
  const bool has_palette = classes.dtype() == DType::u8 && largest < colors;
  const Tensor values =
      Tensor::empty(classes.shape(), has_palette ? DType::u8 : DType::i32, Device::cpu, Purpose::data);
  each_class(classes, [&](std::int64_t i, std::int64_t value) {
    if (has_palette)
      values.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(value + first);
    else
      values.data<std::int32_t>()[i] = static_cast<std::int32_t>(value + first);
  });
  std::vector<Rgb> palette;
  for (std::int64_t i = 0; has_palette && i < colors; ++i) palette.push_back(class_color(i));
  write_png(path, values, palette);
}

Tensor overlay(const Tensor& image, const Tensor& classes, std::int64_t left_out) {
  const Shape& shape = image.shape();
  expect(
      image.dtype() == DType::u8 && shape.rank() == 3 && shape[2] == 3 && classes.shape() == Shape{shape[0], shape[1]},
      "expected an image u8 [H, W, 3] and its classes, got {} and {}", shape, classes.shape());
  Tensor out = Tensor::empty(shape, DType::u8, Device::cpu, Purpose::data);
  out.copy_from(image);
  std::uint8_t* const pixels = out.data<std::uint8_t>();
  each_class(classes, [&](std::int64_t i, std::int64_t value) {
    const Rgb color = class_color(value);
    for (std::size_t c = 0; c < 3 && value != left_out; ++c) {
      std::uint8_t& pixel = pixels[3 * i + static_cast<std::int64_t>(c)];
      pixel = static_cast<std::uint8_t>((pixel + color[c]) / 2);
    }
  });
  return out;
}

std::vector<ClassShare> class_shares(const Tensor& classes) {
  std::map<std::int64_t, std::int64_t> counts;
  each_class(classes, [&](std::int64_t, std::int64_t value) { ++counts[value]; });
  std::vector<ClassShare> shares;
  for (const auto& [number, count] : counts)
    shares.push_back({number, static_cast<double>(count) / static_cast<double>(classes.count())});
  std::ranges::stable_sort(shares, std::greater{}, &ClassShare::share);
  return shares;
}

}  // namespace lacuna
