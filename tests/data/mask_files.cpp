#include "data/resize.h"
#include "data/segmentation/mask_check.h"
#include "data/segmentation/mask_values.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using test::check_says;
using test::refusal_of;

const fs::path folder = fs::path(LACUNA_SOURCE_DIR) / "tests/data/segmentation";

using Values = std::vector<std::int64_t>;

std::vector<std::uint8_t> bytes_of(const std::string& name) {
  const std::string text = test::read_file(folder / name);
  REQUIRE(!text.empty());
  return {text.begin(), text.end()};
}

nlohmann::json references(const std::string& name) { return nlohmann::json::parse(std::ifstream(folder / name)); }

Values values_of(const std::string& name, const MaskColors& colors = {}) {
  const auto bytes = bytes_of(name);
  MaskReader reader(bytes, colors);
  Values values;
  reader.read([&](const std::uint16_t* row) { values.insert(values.end(), row, row + reader.width()); });
  return values;
}

MaskReading reading(std::int64_t classes, const MaskValueOptions& options = {}, MaskSize size = MaskSize::same) {
  return {.labels = MaskLabels(options, {}, options.zero_label == ZeroLabel::ignored, classes),
          .classes = classes,
          .size = size};
}

Tensor labels_of(const MaskReading& how, const std::string& image, const std::string& mask) {
  return read_mask(how, bytes_of(image), bytes_of(mask),
                   [](const Shape& shape, DType dtype) { return Tensor::empty(shape, dtype, Device::cpu); });
}

Values as_values(const Tensor& labels) {
  const std::vector<double> numbers = labels.to_vector();
  return {numbers.begin(), numbers.end()};
}

MaskValueOptions mapped(std::vector<std::pair<std::string, std::string>> map, const std::string& ignore = "255") {
  MaskValueOptions options{.ignore = ignore};
  for (auto& [from, to] : map) options.map.push_back({from, {}, Tree(to)});
  return options;
}

TEST_CASE(
    "masks: palettes give their index, one bit 0 and 1, and grey of 8 and 16 bits its value, as Pillow reads them") {
  const nlohmann::json files = references("values.json");
  CHECK(files.size() >= 9);
  for (const auto& [name, values] : files.items()) {
    CAPTURE(name);
    CHECK(values_of(name) == values.get<Values>());
  }
}

TEST_CASE("masks: colours need a table, and each must be in it") {
  const Tree colors(std::vector<std::string>{"#000000", "128, 0, 0", "#008000", "#808000", "#000080"});
  const Values classes = values_of("palette_4_bits.png");
  for (const char* name : {"rgb.png", "rgba.png", "palette.bmp"}) CHECK(values_of(name, MaskColors(colors)) == classes);
  const MaskColors few(Tree(std::vector<std::string>{"#000000", "128, 0, 0"}));
  check_says(refusal_of([&] { values_of("rgb.png", few); }), "(0, 128, 0)");
  for (const char* name : {"rgb.png", "rgba.png", "grey_alpha.png"})
    check_says(refusal_of([&] { values_of(name); }), "data.colors");
}

TEST_CASE("masks: a table of colours is a file of names and colours too") {
  const test::TemporaryFolder files;
  test::write_file(files / "colors.csv", "name,r,g,b\nground, 0, 0, 0\nroof,128,0,0\n");
  const MaskColors colors(Tree((files / "colors.csv").string()));
  CHECK(colors.names() == std::vector<std::string>{"ground", "roof"});
  CHECK(colors.find(128 << 16) == 1);
  CHECK(!colors.find(1));
  test::write_file(files / "twice.csv", "a,1,1,1\nb,1,1,1\n");
  for (const std::string& wrong :
       {(files / "twice.csv").string(), (files / "none.csv").string(), folder.string() + "/values.json"})
    CHECK(!refusal_of([&] { MaskColors(Tree(wrong)); }).empty());
}

TEST_CASE("masks: formats that change values are refused") {
  check_says(refusal_of([] { values_of("grey.jpg"); }), "JPEG");
  const std::vector<std::uint8_t> empty;
  CHECK(!refusal_of([&] { MaskReader(empty, {}); }).empty());
}

TEST_CASE("masks: ignored values hold the padding, zero_label moves classes down, data.map comes first") {
  const auto labels = [](const MaskValueOptions& options, bool zero = false) {
    return MaskLabels(options, {}, zero, 5);
  };
  const MaskLabels plain = labels({}), zero = labels({}, true), both = labels(mapped({{"255", "1"}})),
                   others = labels(mapped({{"7", "0"}, {"8", "1"}, {"other", "ignore"}})),
                   several = labels({.ignore = "254,255"}), none = labels({.ignore = "none"});
  CHECK(plain[3] == 3);
  CHECK(plain[255] == MaskLabels::ignored);
  CHECK(zero[0] == MaskLabels::ignored);
  CHECK(zero[150] == 149);
  CHECK(zero[255] == MaskLabels::ignored);
  CHECK(both[255] == 1);
  CHECK(both[0] == 0);
  CHECK(others[7] == 0);
  CHECK(others[8] == 1);
  CHECK(others[9] == MaskLabels::ignored);
  CHECK(several[254] == MaskLabels::ignored);
  CHECK(none[255] == 255);
  for (const MaskValueOptions& wrong :
       {mapped({{"a", "1"}}), mapped({{"1", "x"}}), mapped({{"70000", "1"}}), mapped({}, "-1"), mapped({}, "many")})
    CHECK(!refusal_of([&] { labels(wrong); }).empty());
}

TEST_CASE("masks: 255 is ignored as long as it is no class, 65535 always") {
  const auto ignored = [](std::int64_t classes, bool zero, std::uint16_t value) {
    return MaskLabels({}, {}, zero, classes)[value] == MaskLabels::ignored;
  };
  for (const std::int64_t classes : {0, 2, 255, 256, 1000}) {
    CAPTURE(classes);
    CHECK(ignored(classes, false, 255) == (classes < 256));
    CHECK(ignored(classes, true, 255) == (classes < 255));
    CHECK(ignored(classes, false, 65535));
  }
}

TEST_CASE("masks: labels are u8, of more than 255 classes i64; a value of no class names pixel and causes") {
  const Tensor labels = labels_of(reading(5), "image.png", "grey.png");
  CHECK(labels.dtype() == DType::u8);
  CHECK(as_values(labels) == references("values.json")["grey.png"].get<Values>());
  const Tensor wide = labels_of(reading(901), "image.png", "grey_16_bits.png");
  CHECK(wide.dtype() == DType::i64);
  CHECK(as_values(wide) == references("values.json")["grey_16_bits.png"].get<Values>());
  const std::string message = refusal_of([] { labels_of(reading(4), "image.png", "grey.png"); });
  for (const char* part : {"value 4", "x=4, y=0", "data.map={255: 1}", "data.zero_label=ignore", "data.colors"})
    check_says(message, part);
}

TEST_CASE("masks: those of another size than their images are refused, or take the nearest pixels as Pillow does") {
  const std::string message = refusal_of([] { labels_of(reading(2), "image.png", "large.png"); });
  check_says(message, "14×10");
  check_says(message, "7×5");
  const Tensor resized = labels_of(reading(2, {}, MaskSize::resize), "image.png", "large.png");
  CHECK(resized.shape() == Shape{5, 7});
  // An image that its EXIF orientation turns has masks of either size.
  CHECK(labels_of(reading(5), "turned.jpg", "grey.png").shape() == Shape{5, 7});
  const nlohmann::json nearest = references("nearest.json");
  for (const auto& [size, values] : nearest.items()) {
    CAPTURE(size);
    const std::size_t cross = size.find('x');
    const std::string height = size.substr(0, cross), width = size.substr(cross + 1);
    std::string image = "P5 " + width + " " + height + " 255\n";
    image.resize(image.size() + std::stoul(width) * std::stoul(height));
    const std::vector<std::uint8_t> bytes(image.begin(), image.end());
    const Tensor near =
        read_mask(reading(5, {}, MaskSize::resize), bytes, bytes_of("grey.png"),
                  [](const Shape& shape, DType dtype) { return Tensor::empty(shape, dtype, Device::cpu); });
    CHECK(as_values(near) == values.get<Values>());
  }
}

TEST_CASE("nearest pixels are Pillow's, whose steps add up, also where two are equally near") {
  const nlohmann::json all = references("positions.json");
  for (const auto& [sizes, positions] : all.items()) {
    CAPTURE(sizes);
    const std::int64_t source = std::stol(sizes), target = std::stol(sizes.substr(sizes.find('x') + 1));
    CHECK(nearest_positions(source, target, target) == positions.get<Values>());
  }
}

}  // namespace
}  // namespace lacuna
