#include "core/error.h"
#include "data/files/file_tree.h"
#include "data/pipeline.h"
#include "data/sets/image_folder_layout.h"
#include "tests/data/tar_writer.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

namespace lacuna {
namespace {

namespace fs = std::filesystem;
using test::check_says;
using test::tar_end;
using test::tar_member;

class Pictures {
 public:
  void add(const std::string& name, std::string_view content = "picture") const {
    fs::create_directories((folder_ / name).parent_path());
    test::write_file(folder_ / name, content);
  }
  void add_folder(const std::string& name) const { fs::create_directories(folder_ / name); }
  fs::path operator/(const std::string& name) const { return folder_ / name; }

  ImageFolderLayout find(const std::string& name = "", ImageFolderOptions options = {}) const {
    options.path = name.empty() ? fs::path(folder_.path()) : folder_ / name;
    return find_images(options);
  }
  std::string refusal(const std::string& name = "", const ImageFolderOptions& options = {}) const {
    return test::refusal_of([&] { find(name, options); });
  }

 private:
  test::TemporaryFolder folder_;
};

std::vector<std::string> paths(const ImageSplit& split) {
  std::vector<std::string> all;
  for (const std::int32_t file : split.files) all.emplace_back(split.tree->path(file));
  return all;
}

using Names = std::vector<std::string>;
using Labels = std::vector<std::int32_t>;

TEST_CASE("imagefolder: classes in the order of their bytes, nested files, extensions in any case") {
  Pictures pictures;
  for (const char* const name : {"train/b/1.JPG", "train/b/deep/er/2.Png", "train/B/1.jpeg", "train/10/1.webp",
                                 "train/2/1.tif", "valid/b/1.jpg", "valid/B/1.jpg", "valid/10/1.jpg", "valid/2/1.jpg",
                                 "train/b/notes.txt", "train/.cache/1.jpg", "train/b/._1.jpg"})
    pictures.add(name);
  const ImageFolderLayout layout = pictures.find();
  CHECK(layout.classes == Names{"10", "2", "B", "b"});
  CHECK(paths(layout.train) ==
        Names{"train/10/1.webp", "train/2/1.tif", "train/B/1.jpeg", "train/b/1.JPG", "train/b/deep/er/2.Png"});
  CHECK(layout.train.labels == Labels{0, 1, 2, 3, 3});
  CHECK(layout.validation.labels == Labels{0, 1, 2, 3});
  const ImageFolderLayout given = pictures.find("", {.labels = "b, B, 10, 2, other"});
  CHECK(given.train.labels == Labels{2, 3, 1, 0, 0});
  check_says(pictures.refusal("", {.labels = "b, B, 10"}), "2");
  check_says(pictures.refusal("", {.val_fraction = 0.5}), "val_fraction");
}

TEST_CASE("imagefolder: a part of each class is held out by the seed where there is no folder for evaluation") {
  Pictures pictures;
  for (int i = 0; i < 20; ++i) {
    pictures.add(fmt::format("wrapper/cat/{:02}.jpg", i));
    if (i < 10) pictures.add(fmt::format("wrapper/train/{:02}.jpg", i));  // a class, not a split
  }
  const ImageFolderLayout layout = pictures.find("", {.val_fraction = 0.2, .seed = 1});
  CHECK(layout.classes == Names{"cat", "train"});
  CHECK(std::ranges::count(layout.validation.labels, 0) == 4);
  CHECK(std::ranges::count(layout.validation.labels, 1) == 2);
  CHECK(layout.train.files.size() == 24);
  std::set<std::int32_t> all(layout.train.files.begin(), layout.train.files.end());
  all.insert(layout.validation.files.begin(), layout.validation.files.end());
  CHECK(all.size() == 30);
  CHECK(pictures.find("", {.val_fraction = 0.2, .seed = 1}).validation.files == layout.validation.files);
  CHECK(pictures.find("", {.val_fraction = 0.2, .seed = 2}).validation.files != layout.validation.files);
}

TEST_CASE("imagefolder: ImageNet's validation images in one folder get their classes from a file") {
  Pictures pictures;
  pictures.add("train/n01/a.JPEG");
  pictures.add("train/n02/b.JPEG");
  for (const char* const name : {"val/ILSVRC_1.JPEG", "val/ILSVRC_2.JPEG", "val/ILSVRC_3.JPEG"}) pictures.add(name);
  check_says(pictures.refusal(), "val_labels");
  pictures.add("LOC_val_solution.csv",
               "ImageId,PredictionString\nILSVRC_2,n01 1 2 3 4\nILSVRC_1,n02 1 2 3 4 n02 5 6\nILSVRC_3,n02 0\n");
  CHECK(pictures.find().validation.labels == Labels{1, 0, 1});
  pictures.add("synsets.txt", "n01\nn01\nn02\n");
  CHECK(pictures.find("", {.val_labels = pictures / "synsets.txt"}).validation.labels == Labels{0, 0, 1});
  pictures.add("numbers.txt", "ILSVRC_1.JPEG 0\nILSVRC_2.JPEG 1\nILSVRC_3.JPEG 0\n");
  CHECK(pictures.find("", {.val_labels = pictures / "numbers.txt"}).validation.labels == Labels{0, 1, 0});
  pictures.add("kit.txt", "1\n2\n1\n");  // counts from 1, in another order
  check_says(pictures.refusal("", {.val_labels = pictures / "kit.txt"}), "got `2`");
  pictures.add("short.txt", "ILSVRC_1.JPEG 0\n");
  check_says(pictures.refusal("", {.val_labels = pictures / "short.txt"}), "ILSVRC_2");
}

TEST_CASE("imagefolder: a folder in tiny ImageNet's layout") {
  Pictures pictures;
  pictures.add("train/n01/images/a.JPEG");
  pictures.add("train/n02/images/b.JPEG");
  pictures.add("val/images/v0.JPEG");
  pictures.add("val/images/v1.JPEG");
  pictures.add("val/val_annotations.txt", "v0.JPEG\tn02\t0\t32\t44\t62\nv1.JPEG\tn01\t0\t1\t2\t3\n");
  CHECK(pictures.find().validation.labels == Labels{1, 0});
}

TEST_CASE("imagefolder: what cannot be a data set is refused") {
  Pictures pictures;
  check_says(pictures.refusal("absent"), "absent");
  pictures.add_folder("none");
  check_says(pictures.refusal("none"), "no images");
  pictures.add("flat/1.jpg");
  check_says(pictures.refusal("flat"), "1 images in no folders");
  pictures.add("one/cat/1.jpg");
  pictures.add("one/cat/2.jpg");
  check_says(pictures.refusal("one"), "got one: cat");
  pictures.add("empty/cat/1.jpg");
  pictures.add("empty/dog/1.jpg");
  pictures.add_folder("empty/mouse");
  check_says(pictures.refusal("empty"), "mouse");
  for (const char* const name :
       {"differ/train/cat/1.jpg", "differ/train/dog/1.jpg", "differ/val/cat/1.jpg", "differ/val/cow/1.jpg"})
    pictures.add(name);
  const std::string differ = pictures.refusal("differ");
  check_says(differ, "cow only here");
  check_says(differ, "dog not here");
  pictures.add("single/cat/1.jpg");
  pictures.add("single/dog/1.jpg");
  check_says(pictures.refusal("single"), "held out");
  pictures.add("loop/cat/1.jpg");
  pictures.add("loop/dog/1.jpg");
  fs::create_directory_symlink("..", pictures / "loop/dog/again");
  check_says(pictures.refusal("loop"), "contains itself");
  pictures.add("dangling/cat/1.jpg");
  fs::create_symlink("nowhere", pictures / "dangling/cat/2.jpg");
  check_says(pictures.refusal("dangling"), "leads to nothing");
  pictures.add("latin/cat/1.jpg");
  pictures.add("latin/caf\xe9/1.jpg");
  check_says(pictures.refusal("latin"), "caf\\xe9");
}

TEST_CASE("imagefolder: links are followed") {
  Pictures pictures;
  pictures.add("store/cats/1.jpg");
  pictures.add("store/2.jpg");
  pictures.add("data/train/dog/1.jpg");
  pictures.add("data/val/dog/1.jpg");
  pictures.add("data/val/cat/1.jpg");
  fs::create_directory_symlink(pictures / "store/cats", pictures / "data/train/cat");
  fs::create_symlink(pictures / "store/2.jpg", pictures / "data/train/dog/2.jpg");
  CHECK(pictures.find("data").train.labels == Labels{0, 1, 1});
}

TEST_CASE("imagefolder: an archive is read as the folder that was packed") {
  Pictures pictures;
  std::map<std::string, std::string> files{{"train/a/1.jpg", "first"},
                                           {"train/b/1.jpg", std::string(700, 'x')},
                                           {"val/a/1.jpg", ""},
                                           {"val/b/1.jpg", "last"}};
  const std::string long_name = "train/b/" + std::string(150, 'n') + ".jpg";
  std::string archive = tar_member("./train/", "", '5');
  for (const auto& [name, content] : files) {
    pictures.add("folder/" + name, content);
    archive += tar_member("./" + name, content);
  }
  pictures.add("folder/" + long_name, "long");
  const std::string record = fmt::format(" path={}\n", long_name);
  const std::string pax = fmt::format("{}{}", record.size() + 3, record);
  const std::string as_pax = archive + tar_member("PaxHeader", pax, 'x') + tar_member("short", "long") + tar_end();
  const std::string as_gnu =
      archive + tar_member("././@LongLink", long_name + '\0', 'L') + tar_member("short", "long") + tar_end();
  for (const std::string& bytes : {as_pax, as_gnu}) {
    pictures.add("all.tar", bytes);
    const ImageFolderLayout unpacked = pictures.find("folder"), packed = pictures.find("all.tar");
    CHECK(packed.classes == unpacked.classes);
    CHECK(packed.train.labels == unpacked.train.labels);
    CHECK(paths(packed.train) == paths(unpacked.train));
    for (std::size_t i = 0; i < packed.train.files.size(); ++i)
      CHECK(packed.train.tree->read_text(packed.train.files[i]) ==
            unpacked.train.tree->read_text(unpacked.train.files[i]));
    fs::remove(pictures / "all.tar");
  }
}

TEST_CASE("imagefolder: archives of classes within folders and archives, and hard links") {
  Pictures pictures;
  pictures.add("data/train/a.tar",
               tar_member("x_1.jpg", "one") + tar_member("x_2.jpg", "", '1', "x_1.jpg") + tar_end());
  pictures.add("data/train/b.tar", tar_member("y.jpg", "two") + tar_end());
  pictures.add("data/val.tar", tar_member("a.tar", tar_member("z.jpg", "three") + tar_end()) +
                                   tar_member("b/z.jpg", "four") + tar_end());
  const ImageFolderLayout layout = pictures.find("data");
  CHECK(layout.classes == Names{"a", "b"});
  CHECK(layout.train.labels == Labels{0, 0, 1});
  CHECK(layout.train.tree->read_text(layout.train.files[1]) == "one");
  CHECK(layout.validation.tree->read_text(layout.validation.files[0]) == "three");
  check_says(layout.validation.tree->origin(layout.validation.files[0]), "val.tar");
}

TEST_CASE("imagefolder: archives that are cut off, compressed or none are refused") {
  Pictures pictures;
  const std::string whole = tar_member("a/1.jpg", std::string(2000, 'x')) + tar_member("b/1.jpg", "y") + tar_end();
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{512}, std::size_t{1000},
                                 std::size_t{2560}, whole.size() - 1024}) {
    pictures.add(fmt::format("cut{}.tar", size), whole.substr(0, size));
    CAPTURE(size);
    CHECK(pictures.refusal(fmt::format("cut{}.tar", size)) != "");
  }
  pictures.add("packed.tar", "\x1f\x8b" + std::string(600, 'z'));
  check_says(pictures.refusal("packed.tar"), "gzip");
  pictures.add("text.tar", std::string(600, 'z'));
  check_says(pictures.refusal("text.tar"), "no tar archive");
  std::string damaged = whole;
  damaged[512 + 2048 + 3] ^= 1;
  pictures.add("damaged.tar", damaged);
  check_says(pictures.refusal("damaged.tar"), "damaged");
  pictures.add("latin.tar", tar_member("a/\xe9.jpg", "y") + tar_end());
  check_says(pictures.refusal("latin.tar"), "0xe9");
  pictures.add("link.tar", tar_member("a/1.jpg", "", '2', "b") + tar_end());
  check_says(pictures.refusal("link.tar"), "symbolic link");
}

TEST_CASE("imagefolder: a data set of the registry, and found by its path alone") {
  Pictures pictures;
  for (int i = 0; i < 10; ++i)
    for (const char* const name : {"a", "b"}) pictures.add(fmt::format("set/{}/{}.png", name, i), name);
  CHECK(recognize_dataset(pictures / "set").name == "imagefolder");
  DatasetOptions options{.path = pictures / "set"};
  const DatasetPtr all = open_dataset("imagefolder", options);
  CHECK(all->size() == 18);
  CHECK(all->info().classes == Names{"a", "b"});
  options.train_size = 8;  // of both classes, though files come class by class
  const DatasetPtr some = open_dataset("imagefolder", options);
  std::set<std::int64_t> labels;
  Sample sample;
  for (std::int64_t i = 0; i < some->size(); ++i) {
    sample.begin(0);
    some->read(i, sample);
    labels.insert(some->label(i));
    CHECK(sample["images"].count() == 1);
    CHECK(sample["images"].data<std::uint8_t>()[0] == (some->label(i) == 0 ? 'a' : 'b'));
    check_says(sample.origin, ".png");
  }
  CHECK(labels.size() == 2);
  options.train_size = 19;
  CHECK_THROWS_AS(open_dataset("imagefolder", options), Error);
  // A file that was removed after it was listed.
  fs::remove(pictures / "set/a/0.png");
  bool refused = false;
  for (std::int64_t i = 0; i < all->size(); ++i) try {
      sample.begin(0);
      all->read(i, sample);
    } catch (const Error& error) {
      refused = error.fault() == Fault::input && std::string(error.what()).find("0.png") != std::string::npos;
    }
  CHECK(refused);
  CHECK(all->label(0) == 0);  // known without the file

  pictures.add("bin/data_batch_1.bin");
  CHECK(recognize_dataset(pictures / "bin").name == "cifar10");
  pictures.add("pickles/cifar-10-batches-py/data_batch_1");
  CHECK(recognize_dataset(pictures / "pickles").name == "cifar10");
  CHECK_THROWS_WITH_AS(open_dataset("cifar10", {.path = pictures / "pickles"}), doctest::Contains("pickles"), Error);
  pictures.add("RTE/train.tsv");
  CHECK(recognize_dataset(pictures / "RTE").settings.at("task").text == "rte");
  pictures.add("rows/train.csv");
  CHECK(recognize_dataset(pictures / "rows").name == "text");
  pictures.add("other/file.bin");
  CHECK_THROWS_AS(recognize_dataset(pictures / "other"), Error);
  CHECK_THROWS_AS(recognize_dataset(pictures / "absent"), Error);
}

}  // namespace
}  // namespace lacuna
