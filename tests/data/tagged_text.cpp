// Words with tags: JSON lines and CoNLL's columns.
#include "core/error.h"
#include "tests/data/text_files.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

using test::all_of, test::check_says, test::Files, test::Values;

TEST_CASE("tagged text: JSON lines of words and tags are recognised, by other keys too") {
  Files files;
  files.write("train.jsonl", R"({"tokens": ["a", "bad"], "ner_tags": ["O", "B"]})"
                             "\n");
  const RecognizedDataset found = recognize_dataset(files / "train.jsonl");
  CHECK(found.name == "tagged_text");
  CHECK(found.settings.at("tags") == Tree("ner_tags"));
  CHECK(files.open("tagged_text", "train.jsonl", found.settings)->info().classes == std::vector<std::string>{"B", "O"});
}

TEST_CASE("tagged text: the first piece of a word has its label") {
  Files files;
  files.write("train.jsonl",
              "{\"tokens\": [\"john\", \"films\", \"paris\"], \"tags\": [\"B-PER\", \"O\", \"B-LOC\"]}\n");
  const DatasetPtr data = files.open("tagged_text", "train.jsonl");
  CHECK(data->info().classes == std::vector<std::string>{"B-LOC", "B-PER", "O"});
  const Batch batch = all_of(data);
  CHECK(batch["tokens"].to_vector() == Values{2, 15, 8, 12, 16, 3});
  CHECK(batch["labels"].to_vector() == Values{-100, 1, 2, -100, 0, -100});
  CHECK(all_of(files.open("tagged_text", "train.jsonl", {{"padding", std::string("longest")}}))["labels"].shape() ==
        Shape{1, 8});  // a sixteenth of 128
  files.write("train.jsonl", "{\"tokens\": [\"john\"], \"tags\": [\"O\", \"O\"]}\n");
  check_says(files.refusal("tagged_text", "train.jsonl"), "train.jsonl:1: expected a list of words");
  files.write("train.jsonl", "{\"tokens\": [\"john\"], \"tags\": [\"O\"]}\n");
  check_says(files.refusal("tagged_text", "train.jsonl", {{"labels", std::string("A, B")}}), "labels A, B");
}

TEST_CASE("tagged text: a word with the label -100 has none") {
  Files files;
  for (const std::string tags : {"[1, -100, 0]", "[1.0, -100.0, 0.0]", "[\"B\", \"-100\", \"A\"]"}) {
    CAPTURE(tags);
    files.write("train.jsonl", R"({"tokens": ["john", "films", "paris"], "tags": )" + tags + "}\n");
    const DatasetPtr data = files.open("tagged_text", "train.jsonl");
    CHECK(data->info().classes.size() == 2);
    CHECK(data->info().description.find("1 of 3") != std::string::npos);
    CHECK(all_of(data)["labels"].to_vector() == Values{-100, 1, -100, -100, 0, -100});
  }
  files.write("train.jsonl", R"({"tokens": ["john"], "tags": [-100]})");
  check_says(files.refusal("tagged_text", "train.jsonl"), "-100 for all");
}

TEST_CASE("tagged text: CoNLL's columns, whatever lies between them") {
  const std::vector<std::string> texts{
      "-DOCSTART- -X- -X- O\n\njohn NNP B-NP B-PER\nfilms IN B-PP O\n\nparis NNP B-NP B-LOC\n\n",
      "john\tB-PER\nfilms\tO\n\nparis\tB-LOC",
      "\xef\xbb\xbfjohn  B-PER \r\nfilms O\r\n\t\r\n\r\n-DOCSTART- O\r\nparis B-LOC\r\n",
      "# id = 7\njohn\tB-PER\nfilms\tO\n\n# id = 8\nparis\tB-LOC\n",
      "# id 5a\tdomain=en\njohn _ _ B-PER\nfilms _ _ O\n\nparis _ _ B-LOC\n"};
  for (const std::string& text : texts) {
    CAPTURE(text);
    Files files;
    files.write("train.conll", text);
    files.write("eng.train", text);
    for (const char* const name : {"", "eng.train"}) {
      const DatasetPtr data = files.open("tagged_text", name);
      CHECK(data->info().classes == std::vector<std::string>{"B-LOC", "B-PER", "O"});
      CHECK(data->info().metrics == std::vector<std::string>{"accuracy", "f1", "precision", "recall"});
      const Batch batch = all_of(data);
      CHECK(batch["offsets"].to_vector() == Values{0, 5, 8});
      CHECK(batch["tokens"].to_vector() == Values{2, 15, 8, 12, 3, 2, 16, 3});
      CHECK(batch["labels"].to_vector() == Values{-100, 1, 2, -100, -100, -100, 0, -100});
    }
  }
  Files files;
  files.write("train.txt", "1\tjohn\tB-PER\tO\n2\tfilms\tO\tO\n");
  const OptionValues columns{{"words", std::string("2")}, {"tags", std::string("3")}};
  CHECK(all_of(files.open("tagged_text", "", columns))["labels"].to_vector() == Values{-100, 0, 1, -100, -100});
  check_says(files.refusal("tagged_text", "train.txt", {{"tags", std::string("ner")}}), "data.tags");
  check_says(files.refusal("tagged_text", "train.txt", {{"tags", std::string("9")}}), "9 columns");
  for (const std::string wrong : {"john B-PER\nfilms\n", "john B-PER\nfilms X O\n", "john\n", "\xff O\n"}) {
    files.write("train.txt", wrong);
    check_says(files.refusal("tagged_text", "train.txt"), "train.txt:");
  }
  files.write("train.txt", "# O\n#film O\n");  // words that begin as comments do
  CHECK(files.open("tagged_text", "train.txt")->size() == 1);
}

}  // namespace
}  // namespace lacuna
