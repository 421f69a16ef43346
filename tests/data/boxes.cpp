// Images with boxes: COCO, YOLO and VOC in files, and drawn ones.
#include "data/detection/boxes.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/detection/box_layout.h"
#include "data/loader.h"
#include "data/pipeline.h"
#include "data/sets/image_folder_layout.h"
#include "data/transforms.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using Values = std::vector<double>;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}
/// A grey image, as PGM whatever its name.
void write_image(const fs::path& file, int width, int height) {
  write(file,
        fmt::format("P5 {} {} 255\n", width, height) + std::string(static_cast<std::size_t>(width * height), 'x'));
}

struct Opened {
  std::unique_ptr<const Dataset> set;
  Sample sample{};

  Opened(const fs::path& folder, Split split, OptionValues settings = {}, std::string name = {}) {
    DatasetOptions options{.path = folder, .split = split};
    options.settings = std::move(settings);
    set = open_dataset(name.empty() ? recognize_dataset(folder).name : name, options);
  }
  Values of(std::int64_t index, const char* name) {
    sample.begin(0);
    set->read(index, sample);
    return sample[name].to_vector();
  }
};

/// Two images for training, with ids out of order and categories with gaps, and one for evaluation.
void write_coco(const fs::path& folder) {
  write_image(folder / "train2017/b.pgm", 40, 20);
  write_image(folder / "train2017/a.pgm", 30, 30);
  write_image(folder / "val2017/a.pgm", 30, 30);
  write(folder / "annotations/captions_train2017.json", "{}");
  write(folder / "annotations/instances_train2017.json",
        R"({"images": [{"id": 9, "file_name": "a.pgm", "width": 30, "height": 30},
                       {"id": 4, "file_name": "b.pgm", "width": 40, "height": 20}],
            "categories": [{"id": 90, "name": "cat"}, {"id": 3, "name": "dog"}],
            "annotations": [{"id": 0, "image_id": 4, "category_id": 90, "bbox": [1.5, 2, 10, 5], "area": 12.5,
                             "segmentation": [[1, 2, 3, 4]]},
                            {"id": 1, "image_id": 4, "category_id": 3, "bbox": [30, 10, 20, 20], "iscrowd": 0},
                            {"id": 2, "image_id": 4, "category_id": 3, "bbox": [3, 3, 0, 8]},
                            {"id": 3, "image_id": 4, "category_id": 3, "bbox": [0, 0, 8, 8], "iscrowd": 1}]})");
  write(folder / "annotations/instances_val2017.json",
        R"({"images": [{"id": 1, "file_name": "a.pgm", "width": 30, "height": 30}],
            "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
            "annotations": [{"id": 7, "image_id": 1, "category_id": 1, "bbox": [0, 0, 8, 8], "iscrowd": 1}]})");
}

}  // namespace

TEST_CASE("boxes: COCO's categories by name, images by id, crowds in evaluations alone") {
  const TemporaryFolder folder;
  write_coco(folder.path());
  CHECK(recognize_dataset(folder.path()).name == "box_folder");
  Opened train(folder.path(), Split::train), val(folder.path(), Split::validation);
  CHECK(train.set->info().classes == std::vector<std::string>{"dog", "cat"});
  CHECK(train.set->size() == 2);
  CHECK(train.of(0, "boxes") == Values{1.5, 2, 11.5, 7, 30, 10, 40, 20});  // clipped to the image; one without width
  CHECK(train.of(0, "box_labels") == Values{1, 0});
  CHECK(train.of(0, "box_fills") == Values{0.25, 1});
  CHECK(train.of(1, "boxes").empty());
  CHECK(val.of(0, "box_labels") == Values{1});  // other ids, the same names
  CHECK(val.of(0, "box_uncounted") == Values{static_cast<double>(Uncounted::crowd)});
}

TEST_CASE("boxes: a split's annotations stand beside its folder, too, and boxes beyond images are counted") {
  const TemporaryFolder folder;
  write_coco(folder.path());
  fs::rename(folder / "annotations/instances_train2017.json", folder / "train.json");
  fs::rename(folder / "annotations/instances_val2017.json", folder / "val.json");
  fs::rename(folder / "train2017", folder / "train");
  fs::rename(folder / "val2017", folder / "val");
  CHECK(recognize_dataset(folder.path()).name == "box_folder");
  Opened train(folder.path(), Split::train);
  CHECK(train.set->size() == 2);
  CHECK(Opened(folder.path(), Split::validation).set->size() == 1);
  OpenedFiles files;
  const BoxLayout layout = find_boxes(tree_at(folder.path(), files), folder.path(), {}, {});
  CHECK(layout.train.clipped == 1);
  CHECK(layout.validation.clipped == 0);
  write(folder / "train.json", "{}");  // of something else
  CHECK_THROWS_AS(Opened(folder.path(), Split::train, {}, "box_folder"), Error);
}

TEST_CASE("boxes: annotations of classes alone, and those of other folders, leave folders of classes to be read") {
  const std::string without_boxes =
      R"({"images": [{"id": 0, "file_name": "train/cat/0.pgm", "width": 8, "height": 8}],
          "categories": [{"id": 0, "name": "cat"}],
          "annotations": [{"id": 0, "image_id": 0, "category_id": 0)";
  // The key lies across the end of a part that is read at once.
  const std::string with_boxes = without_boxes + ", " +
                                 std::string((std::size_t{1} << 20) - without_boxes.size() - 5, ' ') +
                                 R"("bbox": [1, 2, 3, 4]}]})";
  const TemporaryFolder folder;
  for (const char* const name : {"train/cat/0", "train/dog/1", "val/cat/2", "val/dog/3"})
    write_image(folder / (std::string(name) + ".pgm"), 8, 8);
  for (const char* const file : {"train.json", "annotations/train.json", "old_annotations/train.json"}) {
    CAPTURE(file);
    write(folder / file, without_boxes + "}]}");
    CHECK(recognize_dataset(folder.path()).name == "imagefolder");
    CHECK(Opened(folder.path(), Split::train, {}, "imagefolder").set->info().classes ==
          std::vector<std::string>{"cat", "dog"});
    write(folder / file, with_boxes);
    const bool is_of_others = std::string_view(file) == "old_annotations/train.json";
    CHECK(recognize_dataset(folder.path()).name == (is_of_others ? "imagefolder" : "box_folder"));
    fs::remove(folder / file);
  }
}

TEST_CASE("boxes: damaged annotations of COCO are refused, and named") {
  const TemporaryFolder folder;
  const fs::path file = folder / "annotations/instances_train2017.json";
  write_coco(folder.path());
  const std::string whole = [&] {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }();
  const auto expect_refused = [&](std::string content) {
    CAPTURE(content);
    write(file, content);
    CHECK_THROWS_WITH_AS(Opened(folder.path(), Split::train), doctest::Contains("instances_train2017.json"), Error);
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string content = whole;
    return content.replace(content.find(from), from.size(), to);
  };
  expect_refused(whole.substr(0, whole.size() / 2));
  expect_refused("[]");
  expect_refused(changed("\"image_id\": 4", "\"image_id\": 5"));
  expect_refused(changed("\"category_id\": 90", "\"category_id\": 91"));
  expect_refused(changed("[1.5, 2, 10, 5]", "[1.5, 2, 10]"));
  expect_refused(changed("[1.5, 2, 10, 5]", "[1.5, 2, \"x\", 5]"));
  expect_refused(changed("\"b.pgm\"", "\"c.pgm\""));
  expect_refused(changed("\"id\": 9", "\"id\": 4"));
  expect_refused(changed("\"height\": 20", "\"height\": -20"));
  expect_refused(changed("\"width\": 40", "\"width\": 0"));
  write(file, changed("\"width\": 40, \"height\": 20", "\"width\": 20, \"height\": 40"));
  Opened turned(folder.path(), Split::train);
  CHECK_THROWS_AS(turned.of(0, "boxes"), DamagedSample);
}

TEST_CASE("boxes: corners in place of COCO's width and height are one error") {
  const TemporaryFolder folder;
  write_image(folder / "train/a.pgm", 40, 20);
  const auto open = [&](const std::string& first, const std::string& second) {
    write(folder / "train/_annotations.coco.json",
          R"({"images": [{"id": 0, "file_name": "a.pgm", "width": 40, "height": 20}],
              "categories": [{"id": 0, "name": "cat"}], "annotations": [)"
          R"({"id": 0, "image_id": 0, "category_id": 0, "bbox": [)" +
              first + R"(]},
              {"id": 1, "image_id": 0, "category_id": 0, "bbox": [)" +
              second + "]}]}");
    write(folder / "val/_annotations.coco.json", R"({"images": [], "categories": [], "annotations": []})");
    return Opened(folder.path(), Split::train).of(0, "boxes");
  };
  CHECK_THROWS_WITH_AS(open("10, 5, 35, 18", "20, 8, 40, 20"), doctest::Contains("right, bottom"), Error);
  CHECK(open("10, 5, 25, 18", "20, 8, 10, 12").size() == 8);  // one reaches beyond, the other is no corner
}

TEST_CASE("boxes: YOLO's fractions of an image, images without a text, repeated lines") {
  const TemporaryFolder folder;
  write_image(folder / "images/train/a.pgm", 40, 20);
  write_image(folder / "images/train/b.pgm", 40, 20);
  write_image(folder / "images/val/c.pgm", 10, 10);
  write(folder / "labels/train/a.txt", "1 0.5 0.5 0.5 1\n1 0.5 0.5 0.5 1\n0 0.25 0.5 0.5001 0.1\n");
  write(folder / "labels/val/c.txt", "");
  write(folder / "data.yaml", "train: images/train\nnames:\n  0: cat\n  1: 'big dog'\n");
  Opened train(folder.path(), Split::train);
  CHECK(train.set->info().classes == std::vector<std::string>{"cat", "big dog"});
  const Values boxes = train.of(0, "boxes");
  CHECK(Values(boxes.begin(), boxes.begin() + 4) == Values{10, 0, 30, 20});
  CHECK(boxes[4] == 0);
  CHECK(train.of(0, "box_labels") == Values{1, 0});
  CHECK(train.of(1, "boxes").empty());
  CHECK(Opened(folder.path(), Split::validation).of(0, "boxes").empty());
  for (const char* const text :
       {"2 0.5 0.5 0.5 1\n", "0 0.5 0.5 0.5\n", "0 0.9 0.5 0.5 1\n", "0.5 0.5 0.5 0.5 1\n", "cat 0.5 0.5 0.5 1\n",
        "0 nan 0.5 0.5 1\n", "nan 0.5 0.5 0.5 1\n", "1e300 0.5 0.5 0.5 1\n"}) {
    CAPTURE(text);
    write(folder / "labels/train/b.txt", std::string("\n") + text);
    CHECK_THROWS_WITH_AS(Opened(folder.path(), Split::train), doctest::Contains("b.txt:2"), Error);
  }
  write(folder / "labels/train/b.txt", "");
  write_image(folder / "images/train/a.png", 40, 20);
  CHECK_THROWS_WITH_AS(Opened(folder.path(), Split::train), doctest::Contains("a.png"), Error);
}

TEST_CASE("boxes: the names in data.yaml go by their numbers, in every form of YAML") {
  const TemporaryFolder folder;
  write_image(folder / "images/train/a.pgm", 40, 20);
  write_image(folder / "images/val/b.pgm", 40, 20);
  write(folder / "labels/train/a.txt", "1 0.5 0.5 0.5 1\n");
  const auto classes = [&](const std::string& yaml) {
    write(folder / "data.yaml", yaml);
    return Opened(folder.path(), Split::train).set->info().classes;
  };
  for (const char* const yaml :
       {"names: [cat, \"big dog\"]\n", "names: ['cat', 'big dog']  # two\nnc: 2\n",
        "names:\n  - cat\n  # a comment: with a colon\n\n  - big dog\n",
        "# Ultralytics \xf0\x9f\x9a\x80\npath: ../datasets/x # root\ntrain: images/train\nval: images/val\ntest:\n\n"
        "names:\n  1: big dog  # comes first\n  0: cat\n\ndownload: |\n  names: no\n  0: none\n",
        "nc: 2\nnames: {0: cat,\n  1: 'big dog'}\nroboflow:\n  license: CC\n",
        "names: {1: big dog, 0: cat}\nkpt_shape: [17, 3]\n", "names:\n- cat\n- big dog\nval: [images/val]\n"}) {
    CAPTURE(yaml);
    CHECK(classes(yaml) == std::vector<std::string>{"cat", "big dog"});
  }
  for (const char* const yaml :
       {"names: {0: cat, 2: dog}\n", "names: {0: cat, x: dog}\n", "names: {0: cat, -1: dog}\n", "names: [cat, [dog]]\n",
        "names: [cat, '']\n", "names: [cat, cat]\n", "names: [cat, dog]\nnc: 3\n", "names: cat\n", "train: images\n",
        "names: [cat\n", "- cat\n"}) {
    CAPTURE(yaml);
    CHECK_THROWS_WITH_AS(classes(yaml), doctest::Contains("data.yaml"), Error);
  }
}

TEST_CASE("boxes: VOC's XML with attributes, entities, comments and CDATA") {
  const TemporaryFolder folder;
  for (const char* const name : {"train/a", "val/b"}) write_image(folder / (std::string(name) + ".pgm"), 40, 20);
  const std::string bounds = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax> 9 </ymax></bndbox>";
  write(folder / "train/a.xml",
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE annotation>\n"
        "<annotation verified=\"yes\">\n<!-- <object><name>no</name></object> -->\n"
        "<size x='1'><width >40</width><height>20</height></size>\n"
        "<object id=\"1\"><name lang=\"en\">black &amp; white</name >" +
            bounds +
            "</object>\n"
            "<object><name><![CDATA[a <b>]]></name>" +
            bounds +
            "<difficult>0</difficult></object>\n"
            "<object><name>c<!-- o -->&#97;t</name>" +
            bounds + "<pose/></object>\n</annotation>\n");
  write(folder / "val/b.xml", "<annotation/>");
  const auto open = [&](Split split) { return Opened(folder.path(), split, {}, "box_folder"); };
  CHECK(open(Split::train).set->info().classes == std::vector<std::string>{"black & white", "a <b>", "cat"});
  for (const char* const xml :
       {"", "<annotation>", "<annotation></object></annotation>", "<object/>", "<annotation/><annotation/>",
        "<annotation><object><name>x</name><bndbox><xmin>1</xmin></bndbox></object></annotation>",
        "<annotation><size><width>4<b/>0</width></size></annotation>"}) {
    CAPTURE(xml);
    write(folder / "val/b.xml", xml);
    CHECK_THROWS_WITH_AS(open(Split::train), doctest::Contains("b.xml"), Error);
  }
}

TEST_CASE("boxes: a split alone is trained on and evaluated, and files of unused splits are named") {
  const TemporaryFolder folder;
  write_coco(folder.path());
  fs::remove(folder / "annotations/instances_train2017.json");
  fs::remove_all(folder / "train2017");
  CHECK(recognize_dataset(folder.path()).name == "box_folder");
  CHECK(Opened(folder.path(), Split::validation).set->size() == 1);
  const TemporaryFolder yolo;
  for (const char* const name : {"train/a", "eval/b", "test/c", "d_test"}) {
    write_image(yolo / "images" / (std::string(name) + ".pgm"), 8, 8);
    write(yolo / "labels" / (std::string(name) + ".txt"), "0 0.5 0.5 0.5 0.5\n");
  }
  write(yolo / "classes.txt", "cat\n");
  Opened train(yolo.path(), Split::train);
  CHECK(train.set->size() == 1);
  CHECK(Opened(yolo.path(), Split::validation).set->size() == 1);
  CHECK(train.set->info().description.find("test/c.pgm") != std::string::npos);
  CHECK(train.set->info().description.find("d_test.pgm") != std::string::npos);
}

TEST_CASE("boxes: VOC counts pixels from 1, in any order, and parts are no objects") {
  const TemporaryFolder folder;
  write_image(folder / "JPEGImages/a.pgm", 40, 20);
  write_image(folder / "JPEGImages/b.pgm", 40, 20);
  write_image(folder / "SegmentationClass/a.png", 40, 20);
  write_image(folder / "SegmentationObject/a.png", 40, 20);
  write(folder / "ImageSets/Main/train.txt", "a\n");
  write(folder / "ImageSets/Main/val.txt", "b\n");
  const std::string begin = "<annotation><size><width>40</width><height>20</height></size>", end = "</annotation>";
  const std::string object =
      "<object><bndbox><ymax>5.0</ymax><xmin>1</xmin><ymin>2</ymin><xmax>11</xmax></bndbox><name>dog</name>"
      "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>"
      "<difficult>1</difficult></object>";
  write(folder / "Annotations/a.xml", begin +
                                          "<object><name>dog</name><bndbox><xmin>3</xmin><ymin>3</ymin><xmax>9</xmax>"
                                          "<ymax>9</ymax></bndbox></object>" +
                                          end);
  write(folder / "Annotations/b.xml", begin + object + end);
  CHECK(Opened(folder.path(), Split::train, {}, "box_folder").of(0, "boxes") == Values{2, 2, 9, 9});
  Opened val(folder.path(), Split::validation, {}, "box_folder");
  CHECK(val.of(0, "boxes") == Values{0, 1, 11, 5});
  CHECK(val.of(0, "box_uncounted") == Values{static_cast<double>(Uncounted::difficult)});
  write(folder / "Annotations/b.xml", begin + "<object><name>dog</name></object>" + end);
  CHECK_THROWS_WITH_AS(Opened(folder.path(), Split::validation, {}, "box_folder"), doctest::Contains("b.xml"), Error);
  write(folder / "Annotations/b.xml", begin + "<object><name>cat</name>" + object + end);
  CHECK_THROWS_AS(Opened(folder.path(), Split::validation, {}, "box_folder"), Error);
  write(folder / "Annotations/b.xml", "<annotation><size><width>40</width><height>-1</height></size></annotation>");
  CHECK_THROWS_WITH_AS(Opened(folder.path(), Split::validation, {}, "box_folder"), doctest::Contains("b.xml"), Error);
  write(folder / "ImageSets/Main/val.txt", "c\n");
  CHECK_THROWS_WITH_AS(Opened(folder.path(), Split::validation, {}, "box_folder"), doctest::Contains("val.txt"), Error);
  write(folder / "VOC2012/ImageSets/Main/train.txt", "a\n");
  CHECK_THROWS_WITH_AS(Opened(folder.path(), Split::train, {}, "box_folder"), doctest::Contains("VOC2012"), Error);
}

TEST_CASE("boxes: without images for evaluation some are held out") {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) {
    write_image(folder / fmt::format("images/{}.pgm", i), 8, 8);
    write(folder / fmt::format("labels/{}.txt", i), "0 0.5 0.5 0.5 0.5\n");
  }
  write(folder / "classes.txt", "cat\n");
  const std::int64_t train = Opened(folder.path(), Split::train).set->size(),
                     val = Opened(folder.path(), Split::validation).set->size();
  CHECK(val > 0);
  CHECK(train + val == 20);
  DatasetOptions all{.path = folder.path(), .split = Split::validation, .hold_out = HoldOut::none};
  CHECK(open_dataset("box_folder", all)->size() == 20);
}

TEST_CASE("boxes: one image alone leaves none for evaluation; a fraction needs images to hold out") {
  const TemporaryFolder folder;
  write_image(folder / "images/0.pgm", 8, 8);
  write(folder / "labels/0.txt", "0 0.5 0.5 0.5 0.5\n");
  write(folder / "classes.txt", "cat\n");
  CHECK_THROWS_AS(Opened(folder.path(), Split::train), Error);
  const TemporaryFolder coco;
  write_coco(coco.path());
  OptionValues fraction;
  fraction["val_fraction"] = Tree(0.3);
  CHECK_THROWS_AS(Opened(coco.path(), Split::train, fraction), Error);
}

TEST_CASE("boxes: images without any box are nothing to train on") {
  const TemporaryFolder folder;
  for (const char* const name : {"0", "1", "2", "3"}) {
    write_image(folder / "images" / (std::string(name) + ".pgm"), 8, 8);
    write(folder / "labels" / (std::string(name) + ".txt"), "");
  }
  write(folder / "classes.txt", "cat\n");
  CHECK_THROWS_WITH_AS(Opened(folder.path(), Split::train), doctest::Contains("has a box"), Error);
}

TEST_CASE("boxes: drawn shapes lie within their boxes, and boxes follow crops and flips") {
  DatasetOptions options{.train_size = 64};
  const std::shared_ptr<const Dataset> drawn = open_dataset("shape_boxes", options);
  std::int64_t without = 0;
  Sample sample;
  for (std::int64_t i = 0; i < drawn->size(); ++i) {
    sample.begin(0);
    drawn->read(i, sample);
    const Values boxes = sample["boxes"].to_vector();
    without += boxes.empty() ? 1 : 0;
    for (std::size_t k = 0; k < boxes.size(); k += 4) {
      CHECK(boxes[k] < boxes[k + 2]);
      CHECK(boxes[k + 1] < boxes[k + 3]);
      CHECK(boxes[k + 2] <= 128);
    }
  }
  CHECK(without > 0);
  const Transforms transforms = image_transforms(drawn->info(), {.augment = "crop_flip"});
  Loader loader(Batches(transform(drawn, transforms, 1), {.size = 16}), {.end_epoch = 1});
  const auto batch = loader.next();
  REQUIRE(batch);
  const auto* const offsets = (*batch)["box_offsets"].data<const std::int64_t>();
  CHECK(offsets[16] == (*batch)["boxes"].shape()[0]);
  CHECK((*batch)["box_labels"].count() == offsets[16]);
  CHECK((*batch)["box_fills"].count() == offsets[16]);
}

}  // namespace lacuna
