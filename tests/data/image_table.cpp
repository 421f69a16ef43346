#include "core/error.h"
#include "data/pipeline.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

using Names = std::vector<std::string>;
using Values = std::vector<double>;

class Tables {
 public:
  Tables() {
    for (const char* const name : {"a.jpg", "b.jpg", "c.jpg", "d.jpg"}) write(std::string("images/") + name, name);
  }
  void write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    test::write_file(folder_ / name, text);
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  DatasetPtr open(const std::string& name, OptionValues settings = {}, Split split = Split::train) const {
    return open_dataset("image_table", {.path = folder_ / name, .split = split, .settings = std::move(settings)});
  }
  std::string refusal(const std::string& name, OptionValues settings = {}) const {
    return test::refusal_of([&] {
      open(name, settings);
      open(name, settings, Split::validation);
    });
  }

 private:
  test::TemporaryFolder folder_;
};

/// Labels of all samples, and the first byte of each image.
std::pair<Values, std::string> read_all(const Dataset& data) {
  std::pair<Values, std::string> all;
  Sample sample;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    sample.begin(0);
    data.read(i, sample);
    for (const double value : sample["labels"].to_vector()) all.first.push_back(value);
    all.second += static_cast<char>(sample["images"].data<std::uint8_t>()[0]);
  }
  return all;
}

TEST_CASE("image_table: names of classes, numbers, and several classes, in CSV, TSV and JSON lines") {
  const Tables tables;
  tables.write("one/train.csv", "file_name,label\n../images/a.jpg,dog\n../images/b.jpg,cat\n");
  tables.write("one/val.csv", "file_name,label\n../images/c.jpg,dog\n");
  const DatasetPtr one = tables.open("one");
  CHECK(one->info().classes == Names{"cat", "dog"});
  CHECK(read_all(*one) == std::pair{Values{1, 0}, std::string("ab")});
  CHECK(read_all(*tables.open("one", {}, Split::validation)) == std::pair{Values{1}, std::string("c")});
  CHECK(recognize_dataset(tables / "one").name == "image_table");
  std::filesystem::rename(tables / "images/b.jpg", tables / "images/moved.jpg");
  CHECK(one->label(1) == 0);  // known without the file
  std::filesystem::rename(tables / "images/moved.jpg", tables / "images/b.jpg");

  tables.write("plain.tsv", "a.jpg\t0\nb.jpg\t1\nc.jpg\t1\nd.jpg\t0\n");  // no header
  const OptionValues images{{"images", (tables / "images").string()}};
  const DatasetPtr plain = tables.open("plain.tsv", images), held = tables.open("plain.tsv", images, Split::validation);
  CHECK(plain->size() == 2);
  CHECK(held->size() == 2);
  CHECK(recognize_dataset(tables / "plain.tsv").name == "image_table");

  tables.write("several.csv", "id,tags\na,x y\nb,\nc,y\nd,z x\n");
  const OptionValues several{{"images", (tables / "images").string()}, {"extension", ".jpg"}, {"separator", " "}};
  const DatasetPtr tags = tables.open("several.csv", several);
  CHECK(tags->info().classes == Names{"x", "y", "z"});
  CHECK(field_of(tags->info().fields, "labels").shape == Shape{3});
  tables.write(
      "lists.jsonl",
      "{\"image\": \"images/a.jpg\", \"labels\": [\"x\", \"y\"]}\n{\"image\": \"images/b.jpg\", \"labels\": []}\n");
  CHECK(field_of(tables.open("lists.jsonl")->info().fields, "labels").dtype == DType::f32);
  tables.write("numbers.csv", "path,score\nimages/a.jpg,0.5\nimages/b.jpg,1.25\n");
  CHECK(tables.open("numbers.csv")->info().classes.empty());
}

TEST_CASE("image_table: what cannot be read is refused with the row") {
  const Tables tables;
  tables.write("missing.csv", "image,label\nimages/a.jpg,x\nimages/none.jpg,y\n");
  test::check_says(tables.refusal("missing.csv"), "missing.csv:3");
  tables.write("one.csv", "image,label\nimages/a.jpg,x\nimages/b.jpg,x\n");
  test::check_says(tables.refusal("one.csv"), "two classes");
  tables.write("columns.csv", "where,what\nimages/a.jpg,x\n");
  test::check_says(tables.refusal("columns.csv"), "data.image");
  tables.write("known.csv", "image,label\nimages/a.jpg,x\nimages/b.jpg,7\n");
  test::check_says(tables.refusal("known.csv", {{"labels", "x, y"}}), "known.csv:3");
  CHECK(tables.refusal("absent.csv") != "");
}

}  // namespace
}  // namespace lacuna
