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
                                 "train/2/1.gif", "valid/b/1.jpg", "valid/B/1.jpg", "valid/10/1.jpg", "valid/2/1.jpg",
                                 "train/b/notes.txt", "train/.cache/1.jpg", "train/b/._1.jpg"})
    pictures.add(name);
  const ImageFolderLayout layout = pictures.find();
  CHECK(layout.classes == Names{"10", "2", "B", "b"});
  CHECK(paths(layout.train) ==
        Names{"train/10/1.webp", "train/2/1.gif", "train/B/1.jpeg", "train/b/1.JPG", "train/b/deep/er/2.Png"});
  CHECK(layout.train.labels == Labels{0, 1, 2, 3, 3});
  CHECK(layout.validation.labels == Labels{0, 1, 2, 3});
  const ImageFolderLayout given = pictures.find("", {.labels = "b, B, 10, 2, other"});
  CHECK(given.train.labels == Labels{2, 3, 1, 0, 0});
  check_says(pictures.refusal("", {.labels = "b, B, 10"}), "2");
  check_says(pictures.refusal("", {.hold_out = {.fraction = 0.5}}), "val_fraction");
}

TEST_CASE("imagefolder: a part of each class is held out by the names where there is no folder for evaluation") {
  Pictures pictures;
  for (int i = 0; i < 200; ++i) {
    pictures.add(fmt::format("wrapper/cat/{:03}.jpg", i));
    if (i < 40) pictures.add(fmt::format("wrapper/train/{:03}.jpg", i));  // a class, not a split
  }
  const auto held = [&](std::uint64_t seed) {
    const ImageFolderLayout layout = pictures.find("", {.hold_out = {.fraction = 0.2, .seed = seed}});
    std::set<std::int32_t> all(layout.train.files.begin(), layout.train.files.end());
    all.insert(layout.validation.files.begin(), layout.validation.files.end());
    CHECK(all.size() == layout.train.files.size() + layout.validation.files.size());
    CHECK(std::ssize(layout.held_out->names) == std::ssize(layout.validation.files));
    CHECK(layout.held_out->trained_on == std::ssize(layout.train.files));
    return layout;
  };
  const ImageFolderLayout layout = held(1);
  CHECK(layout.classes == Names{"cat", "train"});
  const auto cats = std::ranges::count(layout.validation.labels, 0),
             trains = std::ranges::count(layout.validation.labels, 1);
  CHECK((25 < cats && cats < 55));
  CHECK((1 < trains && trains < 20));
  CHECK(paths(held(2).validation) != paths(layout.validation));

  // Others that come, and one that changes its class, move none.
  for (int i = 200; i < 260; ++i) pictures.add(fmt::format("wrapper/cat/{:03}.jpg", i));
  for (int i = 40; i < 60; ++i) pictures.add(fmt::format("wrapper/train/{:03}.jpg", i));
  const auto names_of = [&](const ImageFolderLayout& of) {
    return std::set<std::string>(of.held_out->names.begin(), of.held_out->names.end());
  };
  const std::set<std::string> before = names_of(layout), after = names_of(held(1));
  CHECK(std::ranges::includes(after, before));
  pictures.add("relabelled/cat/x.jpg");
  pictures.add("relabelled/dog/y.jpg");
  for (int i = 0; i < 40; ++i) pictures.add(fmt::format("relabelled/{}/{}.jpg", i % 2 == 0 ? "cat" : "dog", i));
  const auto bases = [&] {
    std::set<std::string> names;
    for (const std::string& name : names_of(pictures.find("relabelled", {.hold_out = {.fraction = 0.3}})))
      names.insert(name.substr(name.find('/') + 1));
    return names;
  };
  const std::set<std::string> sides = bases();
  for (int i = 0; i < 10; i += 2)
    fs::rename(pictures / fmt::format("relabelled/cat/{}.jpg", i), pictures / fmt::format("relabelled/dog/{}.jpg", i));
  CHECK(bases() == sides);

  // A small class has one held out at least, and a run that goes on keeps it.
  for (int i = 0; i < 4; ++i) pictures.add(fmt::format("few/{}/{}.jpg", i % 2 == 0 ? "cat" : "dog", i));
  const auto few = pictures.find("few").held_out;
  CHECK(few->names.size() == 2);
  for (int i = 4; i < 60; ++i) pictures.add(fmt::format("few/{}/{}.jpg", i % 2 == 0 ? "cat" : "dog", i));
  const std::set<std::string> kept = names_of(pictures.find("few", {.hold_out = {.before = few}}));
  for (const std::string& name : few->names) CHECK(kept.contains(name));

  // A held-out file stays held out as the last of its class, and under another class.
  auto record = std::make_shared<HeldOut>();
  record->names = {"cat/1.jpg", "dog/7.jpg"};
  for (const char* const name : {"again/cat/1.jpg", "again/dog/2.jpg", "again/dog/3.jpg", "again/cow/7.jpg"})
    pictures.add(name);
  CHECK(names_of(pictures.find("again", {.hold_out = {.fraction = 0.001, .before = record}})) ==
        std::set<std::string>{"cat/1.jpg", "cow/7.jpg"});

  const ImageFolderLayout all = pictures.find("relabelled", {.hold_out = {.how = HoldOut::none}});
  CHECK(all.validation.files.size() == 42);
  CHECK(all.held_out == nullptr);
  // As runs drew them that recorded no names.
  const ImageFolderLayout drawn =
      pictures.find("relabelled", {.hold_out = {.how = HoldOut::by_place, .fraction = 0.5}});
  CHECK(drawn.validation.files.size() == 21);
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

TEST_CASE("imagefolder: names of classes in a file with digits, blanks, quotes and folders") {
  struct Row {
    const char* file;
    Labels labels;  // of 1.png, 2.png and sub/1.png
  };
  Pictures pictures;
  for (const char* const name :
       {"train/1 star/a.png", "train/2 stars/a.png", "train/3/a.png", "val/1.png", "val/2.png", "val/sub/1.png"})
    pictures.add(name);
  for (const Row& row :
       {Row{"val/1.png,1 star\nval/2.png,2 stars\nsub/1.png,3\n", {0, 1, 2}},
        Row{"image;label\nval/1.png;\"2 stars\"\n2.png;1 star\nval/sub/1.png;3\n", {1, 0, 2}},
        Row{"val/1\t0\t5\n2\t1\t5\nsub/1\t2\t5\n", {0, 1, 2}},
        Row{"val/1.png 1 star\n2.png 2 stars\nsub/1.png 3\n", {0, 1, 2}}, Row{"3\n2 stars\n1 star\n", {2, 1, 0}}}) {
    CAPTURE(row.file);
    test::write_file(pictures / "list.csv", row.file);
    CHECK(pictures.find("", {.val_labels = pictures / "list.csv"}).validation.labels == row.labels);
  }
  for (const auto& [file, words] : {std::pair{"1.png,3\n2.png,3\nsub/1.png,3\n", "folders"},
                                    std::pair{"val/1.png,4 stars\n2.png,3\nsub/1.png,3\n", "4 stars"},
                                    std::pair{"val/1.png,3\nval/1.png,1 star\n2.png,3\nsub/1.png,3\n", "listed as"}}) {
    test::write_file(pictures / "list.csv", file);
    check_says(pictures.refusal("", {.val_labels = pictures / "list.csv"}), words);
  }
}

TEST_CASE("imagefolder: other files beside the pictures are counted, or refused") {
  Pictures pictures;
  for (const char* const name :
       {"set/a/1.jfif", "set/a/2.jpe", "set/a/3.gif", "set/b/1.webp", "set/b/2.png", "set/b/notes.txt", "set/b/x.xml",
        "set/@eaDir/1.jpg", "set/a/@eaDir/1.png/SYNO.jpg", "set/lost+found/x", "set/System Volume Information/x",
        "set/__MACOSX/a/._1.jpg", "set/a/Thumbs.db", "set/a/desktop.ini", "set/$RECYCLE.BIN/1.jpg",
        "set/#recycle/2.jpg", "set/.ipynb_checkpoints/1.jpg", "set/runs/tiny/config.yaml"})
    pictures.add(name);
  pictures.add("set/a/without", "GIF89a");
  pictures.add("set/a/IMG.2019.01", "GIF89a");
  pictures.add("set/a/README", "text");
  const ImageFolderLayout layout = pictures.find("set", {.hold_out = {.how = HoldOut::none}});
  CHECK(layout.classes == Names{"a", "b"});
  CHECK(layout.train.files.size() == 7);
  for (const char* const words : {"1 .txt", "1 .xml", "1 without extension"}) check_says(layout.description, words);
  pictures.add("set/b/3.tiff");
  check_says(pictures.refusal("set"), "3.tiff: TIFF");

  for (const char* const name : {"open/train/a/1.jpg", "open/train/a/2.jpg", "open/train/b/1.jpg", "open/train/b/2.jpg",
                                 "open/test/1.jpg", "open/sample/1.jpg"})
    pictures.add(name);
  const ImageFolderLayout open = pictures.find("open");
  CHECK(open.train.files.size() + open.validation.files.size() == 4);
  check_says(open.description, "test are left out");
  check_says(open.description, "sample is left out");

  for (const char* const name : {"vehicles/bus/1.jpg", "vehicles/car/1.jpg", "vehicles/train/2019/1.jpg"})
    pictures.add(name);
  check_says(pictures.refusal("vehicles"), "bus, car");

  for (const char* const name : {"forms/train/caf\xc3\xa9/1.jpg", "forms/train/tea/1.jpg",
                                 "forms/val/cafe\xcc\x81/1.jpg", "forms/val/tea/1.jpg"})
    pictures.add(name);
  CHECK(pictures.find("forms").validation.labels == Labels{0, 1});
  fs::rename(pictures / "forms/val/tea", pictures / "forms/val/Tea");
  CHECK(pictures.find("forms").validation.labels == Labels{1, 0});
  pictures.add("forms/train/cafe\xcc\x81/1.jpg");
  check_says(pictures.refusal("forms"), "Unicode");
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
  DatasetOptions evaluation{.path = pictures / "set", .split = Split::validation};
  CHECK(all->size() + open_dataset("imagefolder", evaluation)->size() == 20);
  CHECK(all->info().held_out->trained_on == all->size());
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
  sample.begin(0);
  all->read(0, sample);
  const fs::path removed = sample.origin;
  fs::remove(removed);
  bool refused = false;
  for (std::int64_t i = 0; i < all->size(); ++i) try {
      sample.begin(0);
      all->read(i, sample);
    } catch (const Error& error) {
      refused = error.fault() == Fault::input &&
                (std::string(error.what()) + sample.origin).find(removed.filename()) != std::string::npos;
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
  for (const char* const name : {"both/train/a/1.jpg", "both/train/b/1.jpg", "both/val/a/1.jpg", "both/val/b/1.jpg"})
    pictures.add(name);
  CHECK(recognize_dataset(pictures / "both").name == "imagefolder");
  pictures.add("both/train.csv", "image,label\ntrain/a/1.jpg,x\ntrain/b/1.jpg,y\n");
  const std::string both = test::refusal_of([&] { recognize_dataset(pictures / "both"); });
  check_says(both, "image_table");
  check_says(both, "imagefolder");
  pictures.add("rows/train.csv");
  CHECK(recognize_dataset(pictures / "rows").name == "text");
  pictures.add("other/file.bin");
  CHECK_THROWS_AS(recognize_dataset(pictures / "other"), Error);
  CHECK_THROWS_AS(recognize_dataset(pictures / "absent"), Error);
}

}  // namespace
}  // namespace lacuna
