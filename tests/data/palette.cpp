#include "data/segmentation/palette.h"

#include "data/segmentation/mask_values.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using Values = std::vector<std::int64_t>;

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& path) {
  const std::string text = test::read_file(path);
  return {text.begin(), text.end()};
}

Values values_in(const std::filesystem::path& path) {
  const auto bytes = bytes_of(path);
  MaskReader reader(bytes, {});
  Values values;
  reader.read([&](const std::uint16_t* row) { values.insert(values.end(), row, row + reader.width()); });
  return values;
}

Tensor classes_of(const Values& values, const Shape& shape, DType dtype) {
  Tensor classes = Tensor::empty(shape, dtype, Device::cpu);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (dtype == DType::u8)
      classes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(values[i]);
    else
      classes.data<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
  return classes;
}

TEST_CASE("palette: VOC's colours") {
  CHECK(class_color(0) == Rgb{0, 0, 0});
  CHECK(class_color(1) == Rgb{128, 0, 0});
  CHECK(class_color(2) == Rgb{0, 128, 0});
  CHECK(class_color(15) == Rgb{192, 128, 128});
  CHECK(class_color(20) == Rgb{0, 64, 128});
  CHECK(class_color(255) == Rgb{224, 224, 192});
}

TEST_CASE("palette: files of classes read back as they were, with a palette or in 16 bits") {
  const test::TemporaryFolder files;
  const Values few{0, 1, 2, 3, 4, 255}, many{0, 1, 300, 70, 512, 65535};
  write_classes(files / "few.png", classes_of(few, {2, 3}, DType::u8));
  CHECK(values_in(files / "few.png") == few);
  const Tensor colors = decode_image(bytes_of(files / "few.png"));
  CHECK(colors.data<const std::uint8_t>()[3] == 128);
  write_classes(files / "many.png", classes_of(many, {3, 2}, DType::i32));
  CHECK(values_in(files / "many.png") == many);
  write_classes(files / "one.png", classes_of({0, 149}, {1, 2}, DType::u8), 1);
  CHECK(values_in(files / "one.png") == Values{1, 150});
  write_classes(files / "wide.png", classes_of({0, 255}, {1, 2}, DType::u8), 1);
  CHECK(values_in(files / "wide.png") == Values{1, 256});
  CHECK(!test::refusal_of([&] { write_classes(files / "none/a.png", classes_of({0}, {1, 1}, DType::u8)); }).empty());
}

TEST_CASE("palette: an overlay is half the image and half the colour; what is left out stays") {
  const Tensor image = classes_of(Values(6, 100), {1, 2, 3}, DType::u8);
  const Tensor out = overlay(image, classes_of({1, 255}, {1, 2}, DType::u8), 255);
  const auto* const pixels = out.data<const std::uint8_t>();
  CHECK(std::vector<int>(pixels, pixels + 6) == std::vector<int>{114, 50, 50, 100, 100, 100});
}

}  // namespace
}  // namespace lacuna
