#include "data/class_names.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/pipeline.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using test::check_says;
using test::refusal_of;

const fs::path source = fs::path(LACUNA_SOURCE_DIR) / "tests/data/segmentation";

/// A folder of copies of the small images and masks.
class Files : public test::TemporaryFolder {
 public:
  /// Copies `from` to each of `names`.
  Files& put(const std::string& from, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      fs::create_directories((*this / name).parent_path());
      fs::copy_file(source / from, *this / name);
    }
    return *this;
  }
  Files& write(const std::string& name, const std::string& text) {
    fs::create_directories((*this / name).parent_path());
    test::write_file(*this / name, text);
    return *this;
  }
  DatasetOptions options(OptionValues settings = {}, Split split = Split::train) const {
    return {.path = path(), .split = split, .settings = std::move(settings)};
  }
};

std::unique_ptr<const Dataset> open(const Files& files, OptionValues settings = {}, Split split = Split::train) {
  CHECK(recognize_dataset(files.path()).name == "mask_folder");
  return open_dataset("mask_folder", files.options(std::move(settings), split));
}

std::set<std::int64_t> labels_of(const Dataset& dataset) {
  std::set<std::int64_t> all;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    Sample sample;
    sample.begin(0);
    dataset.read(i, sample);
    for (const double value : sample[find_field(dataset.info().fields, FieldKind::mask)->name].to_vector())
      all.insert(static_cast<std::int64_t>(value));
  }
  return all;
}

std::string refusal(const Files& files, const OptionValues& settings = {}) {
  return refusal_of([&] { open_dataset("mask_folder", files.options(settings)); });
}

TEST_CASE("mask_folder: images and masks pair by name, in folders of either order, for training and for evaluation") {
  const std::vector<std::pair<std::string, std::string>> layouts{
      {"images/train/#.png", "masks/train/#.png"},
      {"train/images/#.png", "train/masks/#_mask.png"},
      {"images/training/#.png", "labels/training/#.png"},
      {"train_images/#.png", "train_masks/#.png"},
      {"train/#.png", "train_labels/#_L.png"},
      {"images/train2017/#.png", "annotations/train2017/#.png"}};
  const auto named = [](std::string pattern, const std::string& name, bool validation) {
    pattern.replace(pattern.find('#'), 1, name);
    if (validation)
      pattern.replace(pattern.find("train"), pattern.find("training") == std::string::npos ? 5 : 8, "val");
    return pattern;
  };
  for (const auto& [images, masks] : layouts) {
    CAPTURE(masks);
    Files files;
    for (const char* name : {"a", "b", "c.1"}) {
      files.put("image.png", {named(images, name, false)});
      files.put("grey.png", {named(masks, name, false)});
    }
    files.put("image.png", {named(images, "d", true)}).put("palette.png", {named(masks, "d", true)});
    const auto train = open(files), validation = open(files, {}, Split::validation);
    CHECK(train->size() == 3);
    CHECK(validation->size() == 1);
    CHECK(find_field(train->info().fields, FieldKind::mask)->below == 5);
    CHECK(labels_of(*train) == std::set<std::int64_t>{0, 1, 2, 3, 4, 255});
  }
}

TEST_CASE("mask_folder: without a split a part is held out; masks beside their images have an ending") {
  Files files, beside;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    files.put("image.png", {std::string("images/") + name + ".png"})
        .put("grey.png", {std::string("masks/") + name + ".png"});
    beside.put("image.png", {std::string(name) + ".png"}).put("grey.png", {std::string(name) + "_mask.png"});
  }
  for (const Files* const one : {&files, &beside}) {
    const auto train = open(*one), validation = open(*one, {}, Split::validation);
    CHECK(train->size() + validation->size() == 6);
    CHECK(validation->size() > 0);
    CHECK(train->info().held_out != nullptr);
  }
}

TEST_CASE("mask_folder: ADE20K's zero counts for nothing, and its table has the names") {
  Files files;
  files.put("image.png", {"ade/images/training/a.png", "ade/images/validation/b.png"});
  files.put("grey.png", {"ade/annotations/training/a.png", "ade/annotations/validation/b.png"});
  files.write("ade/objectInfo150.txt",
              "Idx\tRatio\tTrain\tVal\tName\n1\t0.1\t1\t1\twall\n2\t0.1\t1\t1\tbuilding, edifice\n"
              "3\t0.1\t1\t1\tsky\n4\t0.1\t1\t1\tfloor, flooring\n");
  const auto train = open(files);
  CHECK(train->info().classes == std::vector<std::string>{"wall", "building", "sky", "floor"});
  CHECK(labels_of(*train) == std::set<std::int64_t>{0, 1, 2, 3, 255});
  // Classes of a model in another order.
  const auto turned = open(files, {{"labels", "sky, wall, floor, building"}});
  Sample sample;
  sample.begin(0);
  turned->read(0, sample);
  const Tensor& mask = sample[find_field(turned->info().fields, FieldKind::mask)->name];
  CHECK(mask.data<const std::uint8_t>()[1] == 1);  // 1 is wall
  CHECK(mask.data<const std::uint8_t>()[3] == 0);  // 3 is sky
}

TEST_CASE("mask_folder: VOC's lists say the splits, and `trainaug` takes masks of SegmentationClassAug") {
  Files files;
  files.put("image.png", {"VOC2012/JPEGImages/a.png", "VOC2012/JPEGImages/b.png", "VOC2012/JPEGImages/c.png",
                          "VOC2012/JPEGImages/d.png"});
  files.put("palette.png", {"VOC2012/SegmentationClass/a.png", "VOC2012/SegmentationClass/b.png"});
  files.put("palette.png", {"VOC2012/SegmentationClassAug/a.png", "VOC2012/SegmentationClassAug/b.png",
                            "VOC2012/SegmentationClassAug/c.png"});
  files.put("rgb.png", {"VOC2012/SegmentationObject/a.png"});
  files.write("VOC2012/ImageSets/Segmentation/train.txt", "a\n")
      .write("VOC2012/ImageSets/Segmentation/val.txt", "b\r\n");
  files.write("VOC2012/ImageSets/Segmentation/trainaug.txt", "a\nc\n");
  CHECK(open(files)->size() == 1);
  CHECK(open(files)->info().classes.size() == 21);
  CHECK(open(files, {}, Split::validation)->size() == 1);
  CHECK(open(files, {{"list", "trainaug"}})->size() == 2);
  files.write("VOC2012/ImageSets/Segmentation/train.txt", "a\nmissing\n");
  const std::string message = refusal(files);
  check_says(message, "train.txt:2");
  check_says(message, "missing");
  files.write("VOC2007/ImageSets/Segmentation/train.txt", "a\n");
  check_says(refusal(files), "VOC2007");
}

TEST_CASE("mask_folder: Cityscapes' ids become its 19 classes") {
  Files files;
  for (const std::string split : {"train", "val"}) {
    const std::string name = "/x/x_000_000_";
    files.put("image.png", {"leftImg8bit/" + split + name + "leftImg8bit.png"});
    files.put("rgb.png", {"gtFine/" + split + name + "gtFine_color.png"});
    std::string ids = "P5 7 5 255\n";
    for (int i = 0; i < 35; ++i) ids += static_cast<char>(i);
    // A PGM under this name: the content tells the format.
    files.write("gtFine/" + split + name + "gtFine_labelIds.png", ids);
  }
  const auto train = open(files);
  CHECK(train->size() == 1);
  CHECK(train->info().classes.size() == 19);
  Sample sample;
  sample.begin(0);
  train->read(0, sample);
  const auto* const mask = sample[find_field(train->info().fields, FieldKind::mask)->name].data<const std::uint8_t>();
  CHECK(mask[7] == 0);
  CHECK(mask[33] == 18);
  CHECK(mask[0] == 255);
  CHECK(mask[30] == 255);
}

TEST_CASE("mask_folder: names of classes come from the labels, a file or a table of colours") {
  Files files;
  files.put("image.png", {"images/a.png", "images/b.png"}).put("rgb.png", {"masks/a.png", "masks/b.png"});
  files.write("colors.csv", "name,r,g,b\na,0,0,0\nb,128,0,0\nc,0,128,0\nd,128,128,0\ne,0,0,128\n");
  const auto train = open(files, {{"colors", (files / "colors.csv").string()}});
  CHECK(train->info().classes == std::vector<std::string>{"a", "b", "c", "d", "e"});
  Files named;
  named.put("image.png", {"images/a.png", "images/b.png"}).put("grey.png", {"masks/a.png", "masks/b.png"});
  named.write("classes.txt", "a\nb\nc\nd\ne\n");
  CHECK(open(named)->info().classes.size() == 5);
  CHECK(open(named, {{"labels", "f, g, h, i, j"}})->info().classes.front() == "f");
  check_says(refusal(named, {{"labels", "f, g"}}), "value 2");
}

TEST_CASE("mask_folder: what has no partner is named") {
  Files files;
  files.put("image.png", {"images/a.png", "images/b.png", "images/bare.png"});
  files.put("grey.png", {"masks/a.png", "masks/b.png"});
  check_says(open(files)->info().description, "bare.png");
  files.put("grey.png", {"masks/widowed.png"});
  check_says(refusal(files), "widowed.png");
  Files twice;
  twice.put("image.png", {"images/a.png"}).put("grey.png", {"masks/a.png", "masks/a_mask.png"});
  check_says(refusal(twice), "a_mask.png");
  Files alike;
  alike.put("image.png", {"images/a.png", "images/a.jpg"}).put("grey.png", {"masks/a.png"});
  check_says(refusal(alike), "images/a.jpg");
  Files others;  // masks of no split, and none but of one
  others.put("image.png", {"images/train/a.png", "images/val/b.png", "images/test/c.png"});
  others.put("grey.png", {"masks/train/a.png", "masks/val/b.png", "masks/test/c.png"});
  check_says(open(others)->info().description, "left out");
  Files evaluated;
  evaluated.put("image.png", {"images/val/a.png"}).put("grey.png", {"masks/val/a.png"});
  check_says(open(evaluated)->info().description, "no others to train on");
  Files none;
  none.put("image.png", {"images/a.png"}).write("masks/a.txt", "");
  check_says(refusal(none), "images/a.png");
}

TEST_CASE("mask_folder: bad masks are refused before a run, with the file's name") {
  const auto with = [](const std::string& mask, const OptionValues& settings) {
    Files files;
    files.put("image.png", {"images/a.png", "images/b.png"}).put("grey.png", {"masks/b.png"});
    if (mask.empty())
      files.write("masks/a.png", "no picture");
    else
      files.put(mask, {"masks/a." + mask.substr(mask.rfind('.') + 1)});
    const std::string message = refusal(files, settings);
    CAPTURE(mask);
    check_says(message, "masks/a.");
    return message;
  };
  const OptionValues five{{"labels", "a, b, c, d, e"}};
  check_says(with("large.png", five), "7×5");
  check_says(with("rgb.png", five), "data.colors");
  check_says(with("grey.jpg", five), "JPEG");
  check_says(with("grey_16_bits.png", five), "value 300");
  check_says(with("", five), "no image");
}

TEST_CASE("mask_folder: masks of 0 and 255 alone suggest a map, which makes two classes of them") {
  Files files;
  files.put("image.png", {"images/a.png", "images/b.png"}).put("black_white.png", {"masks/a.png", "masks/b.png"});
  check_says(refusal(files), "data.map={255: 1}");
  Files rare;  // the images to evaluate on may lack a class
  rare.put("image.png", {"images/train/a.png", "images/val/b.png"});
  rare.put("grey.png", {"masks/train/a.png"}).put("black_white.png", {"masks/val/b.png"});
  CHECK(open(rare, {}, Split::validation)->size() == 1);
  Tree map;
  map.kind = Tree::Kind::map;
  map.entries.push_back({"255", {}, Tree(1)});
  const auto train = open(files, {{"map", map}});
  CHECK(find_field(train->info().fields, FieldKind::mask)->below == 2);
  CHECK(labels_of(*train) == std::set<std::int64_t>{0, 1});
}

TEST_CASE("mask_folder: class 255 counts where masks have more classes") {
  Files files;
  std::string wide = "P5 7 5 65535\n";
  for (int i = 0; i < 35; ++i) wide += {static_cast<char>(i % 2), static_cast<char>(i < 2 ? 255 : i)};
  wide.replace(wide.size() - 2, 2, "\xff\xff");
  for (const char* const name : {"a", "b"})
    files.put("image.png", {fmt::format("images/{}.png", name)}).write(fmt::format("masks/{}.png", name), wide);
  const auto train = open(files);
  CHECK(train->info().classes.empty());
  CHECK(find_field(train->info().fields, FieldKind::mask)->below == 512);
  CHECK(labels_of(*train).contains(255));
  CHECK(labels_of(*train).contains(65535));
}

TEST_CASE("mask_folder: images that EXIF turns without another size are told") {
  Files files;
  std::string image = test::read_file(source / "turned.jpg");
  const std::size_t tag =
      std::min(image.find(std::string("\x01\x12\0\3", 4)), image.find(std::string("\x12\1\3\0", 4)));
  REQUIRE(tag != std::string::npos);
  image[tag + 8] = image[tag] == 1 ? 0 : 3;
  image[tag + 9] = image[tag] == 1 ? 3 : 0;
  files.write("images/a.jpg", image).write("images/b.jpg", image);
  std::string mask = "P5 5 7 255\n";
  for (int i = 0; i < 35; ++i) mask += static_cast<char>(i % 2);
  files.write("masks/a.png", mask).write("masks/b.png", mask);
  check_says(open(files)->info().description, "data.exif");
}

TEST_CASE("mask_folder: masks follow their images into batches") {
  Files files;
  files.put("image.png", {"images/a.png", "images/b.png", "images/c.png"});
  files.put("grey.png", {"masks/a.png", "masks/b.png", "masks/c.png"});
  const std::shared_ptr<const Dataset> train = open(files);
  const Transforms transforms = image_transforms(train->info(), {.image_size = 16, .crop_mode = "border"});
  Loader loader(Batches(transform(train, transforms, 1), {.size = 2}), {.end_epoch = 1});
  const auto batch = loader.next();
  REQUIRE(batch);
  const Tensor& mask = (*batch)[find_field(train->info().fields, FieldKind::mask)->name];
  CHECK(mask.shape() == Shape{2, 16, 16});
  CHECK(mask.data<const std::uint8_t>()[0] == 255);           // above the image
  CHECK(mask.data<const std::uint8_t>()[16 * 16 / 2] < 255);  // in it
}

}  // namespace
}  // namespace lacuna
