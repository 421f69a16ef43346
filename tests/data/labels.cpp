// Labels as written, in every reader of them.
#include "data/labels.h"

#include "core/error.h"
#include "data/pipeline.h"
#include "data/sets/image_folder_layout.h"
#include "tests/data/tar_writer.h"
#include "tests/data/text_files.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

using Names = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

/// Writes labels in the form of a reader, and reads them.
struct Reader {
  const char* name;
  bool has_numbers;  // whether fractions are numbers to predict
  DatasetPtr (*open)(const test::Files& files, const Names& labels, OptionValues settings);
};

std::string json_of(const Names& labels) {
  std::string text;
  for (const std::string& label : labels) {
    const bool is_number = label.find_first_not_of("0123456789.-") == std::string::npos && !label.starts_with("00");
    text += (text.empty() ? "" : ", ") + (is_number ? label : "\"" + label + "\"");
  }
  return text;
}

DatasetPtr open_table(const test::Files& files, const Names& labels, OptionValues settings) {
  std::string text = "text,label\n";
  for (const std::string& label : labels) text += "a," + label + "\n";
  files.write("train.csv", text);
  return files.open("text", "train.csv", std::move(settings));
}

DatasetPtr open_lists(const test::Files& files, const Names& labels, OptionValues settings) {
  std::string text;
  for (const std::string& label : labels) text += "{\"text\": \"a\", \"labels\": [" + json_of({label}) + "]}\n";
  files.write("train.jsonl", text);
  return files.open("text", "train.jsonl", std::move(settings));
}

DatasetPtr open_tags(const test::Files& files, const Names& labels, OptionValues settings) {
  std::string words;
  for (std::size_t i = 0; i < labels.size(); ++i) words += i == 0 ? "\"a\"" : ", \"a\"";
  files.write("tags.jsonl", "{\"tokens\": [" + words + "], \"tags\": [" + json_of(labels) + "]}\n");
  return files.open("tagged_text", "tags.jsonl", std::move(settings));
}

DatasetPtr open_shards(const test::Files& files, const Names& labels, OptionValues settings) {
  std::string bytes, others;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string key = fmt::format("{:03}", i);
    bytes += test::tar_member(key + ".jpg", "x") + test::tar_member(key + ".cls", labels[i]);
  }
  files.write("train.tar", bytes + test::tar_end());
  files.write("val.tar", bytes + test::tar_end());
  settings["validation"] = (files / "val.tar").string();
  return open_dataset("webdataset", {.path = files / "train.tar", .settings = std::move(settings)});
}

DatasetPtr open_pictures(const test::Files& files, const Names& labels, OptionValues settings) {
  std::string text = "image,label\n";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    files.write(fmt::format("{}.jpg", i), "x");
    text += fmt::format("{}.jpg,{}\n", i, labels[i]);
  }
  files.write("images.csv", text);
  settings["validation"] = (files / "images.csv").string();
  return open_dataset("image_table", {.path = files / "images.csv", .settings = std::move(settings)});
}

const Reader readers[] = {{"table", true, open_table},
                          {"lists", false, open_lists},
                          {"tags", false, open_tags},
                          {"shards", false, open_shards},
                          {"pictures", true, open_pictures}};

/// The classes of the labels in turn, -100 for none.
Numbers classes_in(const DatasetPtr& data, const std::string& reader) {
  Numbers numbers;
  for (std::int64_t i = 0; i < data->size(); ++i) {
    Sample sample;
    sample.begin(0);
    data->read(i, sample);
    const std::vector<double> labels = sample["labels"].to_vector();
    if (reader == "lists")
      numbers.push_back(std::ranges::find(labels, 1) - labels.begin());
    else if (reader == "tags")
      numbers.insert(numbers.end(), labels.begin() + 1, labels.end() - 1);  // [CLS] and [SEP]
    else
      numbers.push_back(static_cast<std::int64_t>(labels[0]));
  }
  return numbers;
}

TEST_CASE("labels are the same classes in every reader") {
  struct Case {
    Names labels;
    Names classes;    // empty: the labels are refused
    Numbers numbers;  // of the labels
    const char* given = "";
  };
  const std::string most = "10.0";
  for (const Case& one : {
           Case{{"1.0", "0.0", most, "2", "3", "4", "5", "6", "7", "8", "9"},
                {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"},
                {1, 0, 10, 2, 3, 4, 5, 6, 7, 8, 9}},
           Case{{"2", "1", "3"}, {"1", "2", "3"}, {1, 0, 2}},
           Case{{"0", "2"}, {"0", "1", "2"}, {0, 2}},
           Case{{"0", "1", "5000"}, {}, {}},
           Case{{"cat", "nan"}, {}, {}},
           Case{{"cat", "dog", "null"}, {}, {}},
           Case{{"0", "1", "NaN"}, {}, {}},
           Case{{"none", "some"}, {"none", "some"}, {0, 1}},
           Case{{"0", "1", "none"}, {}, {}},
           Case{{"cat", "nan"}, {"nan", "cat"}, {1, 0}, "nan, cat"},
           Case{{" cat", "dog ", "cat"}, {"cat", "dog"}, {0, 1, 0}},
           Case{{" 1", "0 ", "1"}, {"0", "1"}, {1, 0, 1}},
           Case{{"Cat", "dog", "cat"}, {}, {}},
           Case{{"Cat", "dog", "cat"}, {"cat", "dog"}, {0, 1, 0}, "cat, dog"},
           Case{{"Cat", "dog", "cat"}, {"Cat", "cat", "dog"}, {0, 2, 1}, "Cat, cat, dog"},
           Case{{"CAT"}, {"cat", "dog"}, {0}, "cat, dog"},
           Case{{"1", "0"}, {"cat", "dog"}, {1, 0}, "cat, dog"},
           Case{{"1.0", "2.0"}, {"cat", "dog"}, {0, 1}, "cat, dog"},
           Case{{"1", "3"}, {"cat", "dog", "fox"}, {0, 2}, "cat, dog, fox"},
           Case{{"1", "2"}, {}, {}, "cat, dog, fox"},  // from 0 or from 1
           Case{{"0", "2"}, {}, {}, "cat, dog"},
           Case{{"0", "cat"}, {}, {}, "cat, dog"},
           Case{{"0", "1"}, {}, {}, "1, 2, 3"},
           Case{{"1", "3"}, {"1", "2", "3"}, {0, 2}, "1, 2, 3"},
           Case{{"2.0", "1"}, {"2", "1"}, {0, 1}, "2, 1"},
           Case{{"007", "12"}, {"007", "12"}, {0, 1}},
           Case{{"cat", "horse"}, {}, {}, "cat, dog"},
       }) {
    for (const Reader& reader : readers) {
      CAPTURE(reader.name);
      CAPTURE(fmt::format("{}", fmt::join(one.labels, "|")));
      const test::Files files;
      OptionValues settings;
      if (*one.given != '\0') settings["labels"] = std::string(one.given);
      if (one.classes.empty()) {
        CHECK(test::refusal_of([&] { reader.open(files, one.labels, settings); }) != "");
        continue;
      }
      const DatasetPtr data = reader.open(files, one.labels, settings);
      CHECK(data->info().classes == one.classes);
      CHECK(classes_in(data, reader.name) == one.numbers);
    }
  }
}

TEST_CASE("-100 marks words without a tag, and is refused among the classes of other readers") {
  for (const Names& labels : {Names{"1", "-100", "0"}, Names{"1.0", "-100.0", "0.0"}, Names{"2", "-100", "1"}})
    for (const Reader& reader : readers) {
      CAPTURE(reader.name);
      const test::Files files;
      if (std::string_view(reader.name) == "tags")
        CHECK(classes_in(reader.open(files, labels, {}), reader.name) == Numbers{1, -100, 0});
      else
        test::check_says(test::refusal_of([&] { reader.open(files, labels, {}); }), "-100");
    }
}

TEST_CASE("labels with fractions are numbers to predict in tables, and refused elsewhere") {
  for (const Reader& reader : readers) {
    CAPTURE(reader.name);
    const test::Files files;
    const Names labels{" 0.5", "1", "2.5"};
    if (reader.has_numbers)
      CHECK(reader.open(files, labels, {})->info().classes.empty());
    else
      test::check_says(test::refusal_of([&] { reader.open(files, labels, {}); }), "0.5");
  }
}

TEST_CASE("a file to evaluate on has the numbers of the training file, and its own where that has names") {
  const test::Files files;
  const OptionValues named{{"labels", std::string("cat, dog, fox")}};
  const auto labels = [&](const char* train, const char* dev) {
    files.write("train.tsv", train);
    files.write("dev.tsv", dev);
    return test::all_of(files.open("text", "train.tsv", named, Split::validation))["labels"].to_vector();
  };
  CHECK(labels("text\tlabel\na\t1\na\t3\n", "text\tlabel\na\t2\n") == test::Values{1});
  CHECK(labels("text\tlabel\na\t0\na\t1\n", "text\tlabel\na\t2\n") == test::Values{2});
  CHECK(labels("text\tlabel\na\tcat\na\tdog\n", "text\tlabel\na\t0\na\t1\n") == test::Values{0, 1});
}

TEST_CASE("classes in a file with a byte order mark") {
  const test::Files files;
  files.write("names.txt",
              "\xef\xbb\xbf"
              "cat\ndog\n");
  files.write("train.tsv", "text\tlabel\na\tcat\na\tdog\n");
  CHECK(files.open("text", "train.tsv", {{"labels", (files / "names.txt").string()}})->info().classes ==
        Names{"cat", "dog"});
}

TEST_CASE("imagefolder: folders and files of labels name classes as labels do") {
  const test::Files files;
  const auto add = [&](const std::string& name) { files.write(name, "x"); };
  const auto find = [&](const std::string& folder, ImageFolderOptions options = {}) {
    options.path = files / folder;
    options.files = std::make_shared<OpenedFiles>();
    return find_images(options);
  };
  for (const char* const name : {"case/Cat/1.png", "case/cat/2.png", "case/dog/3.png"}) add(name);
  test::check_says(test::refusal_of([&] { find("case"); }), "data.labels");
  CHECK(find("case", {.labels = "cat, dog"}).classes == Names{"cat", "dog"});

  for (const char* const name : {"digits/train/1/a.png", "digits/train/2/b.png", "digits/train/3/c.png",
                                 "words/train/dog/a.png", "words/train/great/b.png"})
    add(name);
  for (const char* const folder : {"digits", "words"})
    for (int i = 0; i < 3; ++i) add(fmt::format("{}/val/v{}.png", folder, i));
  const auto labels = [&](const std::string& folder, const std::string& text) {
    files.write("list.csv", text);
    return find(folder, {.val_labels = files / "list.csv"}).validation.labels;
  };
  using Labels = std::vector<std::int32_t>;
  CHECK(labels("digits", "v0.png,1\nv1.png,2.0\nv2.png,3\n") == Labels{0, 1, 2});
  CHECK(labels("words", "v0.png,Great\nv1.png,dog 12 3.5\nv2.png,dog\n") == Labels{1, 0, 0});
  CHECK(labels("words", "v0.png,1.0\nv1.png,0\nv2.png,0\n") == Labels{1, 0, 0});
  for (const auto& [folder, text] :
       {std::pair{"digits", "v0.png,0\nv1.png,1\nv2.png,2\n"},
        std::pair{"words", "v0.png,great dane\nv1.png,dog\nv2.png,dog\n"},
        std::pair{"words", "v0.png,1\nv1.png,2\nv2.png,2\n"}, std::pair{"words", "v0.png,1\nv1.png,dog\nv2.png,dog\n"},
        std::pair{"words", "v0.png,-100\nv1.png,dog\nv2.png,dog\n"}}) {
    CAPTURE(text);
    CHECK(test::refusal_of([&, where = folder, what = text] { labels(where, what); }) != "");
  }
}

}  // namespace
}  // namespace lacuna
