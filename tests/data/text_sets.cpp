#include "core/error.h"
#include "data/loader.h"
#include "data/text/answers.h"
#include "tests/data/text_files.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

namespace lacuna {
namespace {

using test::all_of, test::check_says, test::Files, test::Values;

TEST_CASE("text: TSV without a header finds out which column is the label") {
  Files files;
  files.write("train.tsv", "a good film\t1\nbad\t0\n\"good\t1\n");
  files.write("dev.tsv", "bad film\t0\n");
  const DatasetPtr data = files.open("text", "");
  check_says(data->info().description, "TSV without a header, text in `1`, labels in `2`: 2 classes: 0, 1");
  const Batch batch = all_of(data);
  CHECK(batch["tokens"].to_vector() == Values{2, 5, 6, 8, 3, 2, 7, 3, 2, 14, 6, 3});
  CHECK(batch["offsets"].to_vector() == Values{0, 5, 8, 12});
  CHECK(batch["token_types"].to_vector() == Values(12, 0));
  CHECK(batch["labels"].to_vector() == Values{1, 0, 1});
  CHECK(data->label(1) == 0);
  CHECK(all_of(files.open("text", "", {}, Split::validation))["labels"].to_vector() == Values{0});
}

TEST_CASE("text: a header stays one where columns are given by number, and one with unusual names is refused") {
  Files files;
  const OptionValues numbers{{"text", std::string("1")}, {"label", std::string("2")}};
  files.write("train.tsv", "text\tlabel\na\t1\nbad\t0\n");
  const DatasetPtr data = files.open("text", "train.tsv", numbers);
  CHECK(data->info().classes == std::vector<std::string>{"0", "1"});
  CHECK(all_of(data)["labels"].to_vector() == Values{1, 0});
  files.write("train.tsv", "a\t1\nbad\t0\n");
  CHECK(files.open("text", "train.tsv", numbers)->size() == 2);

  for (const char* const rows : {"utterance\tmood\na\t1\ngood\t0\n", "utterance\tmood\na\tx\ngood\ty\nbad\tx\n"}) {
    files.write("train.tsv", rows);
    check_says(files.refusal("text", "train.tsv"), "data.label");
    check_says(files.refusal("text", "train.tsv"), "by name");
    CHECK(files.open("text", "train.tsv", {{"text", std::string("utterance")}, {"label", std::string("mood")}})
              ->info()
              .classes.size() == 2);
  }
  CHECK(files.open("text", "train.tsv", numbers)->size() == 4);
  check_says(files.refusal("text", "train.tsv", {{"label", std::string("feeling")}}), "feeling");
  files.write("train.tsv", "a\tx\ngood\ty\nbad\tx\n");
  CHECK(files.open("text", "train.tsv")->size() == 3);
}

TEST_CASE("text: a header of unusual names is shown, and read by name") {
  const Files files;
  files.write("train.csv", "ID;Kommentar;Bewertung;source\n1;good film;positive;a\n2;bad film;negative;a\n");
  const std::string refused = files.refusal("text", "train.csv");
  check_says(refused, "`Kommentar`");
  check_says(refused, "by name");
  CHECK(files.open("text", "train.csv", {{"text", std::string("Kommentar")}, {"label", std::string("Bewertung")}})
            ->info()
            .classes.size() == 2);
  const OptionValues numbers{{"text", std::string("2")}, {"label", std::string("3")}};
  check_says(files.open("text", "train.csv", numbers)->info().description, "first row is a sample");
}

TEST_CASE("text: CSV with quotes, line breaks within them, and names of classes") {
  Files files;
  files.write("train.csv", "label,text\r\npos,\"a \"\"good\"\"\r\nfilm, a\"\r\nneg,bad\r\n");
  files.write("val.csv", "text,label\nbad,pos\n");
  const DatasetPtr data = files.open("text", "train.csv");
  CHECK(data->info().classes == std::vector<std::string>{"neg", "pos"});
  const Batch batch = all_of(data);
  CHECK(batch["tokens"].to_vector() == Values{2, 5, 14, 6, 14, 8, 13, 5, 3, 2, 7, 3});
  CHECK(batch["labels"].to_vector() == Values{1, 0});
  CHECK(all_of(files.open("text", "train.csv", {}, Split::validation))["labels"].to_vector() == Values{1});
  CHECK(all_of(files.open("text", "train.csv", {{"labels", std::string("pos, neg")}}))["labels"].to_vector() ==
        Values{0, 1});
}

TEST_CASE("text: JSON lines with chosen columns, pairs, several classes and numbers") {
  Files files;
  files.write("train.jsonl",
              "{\"q\": \"who made it\", \"p\": \"john\", \"tags\": [\"x\", \"y\"], \"score\": 2.5, \"n\": 3}\n"
              "{\"p\": \"paris\", \"q\": \"it\", \"tags\": [], \"score\": -1, \"n\": 0}\n");
  const OptionValues pair{{"text", std::string("q")}, {"pair", std::string("p")}, {"label", std::string("tags")}};
  const Batch batch = all_of(files.open("text", "train.jsonl", pair));
  CHECK(batch["tokens"].to_vector() == Values{2, 9, 10, 11, 3, 15, 3, 2, 11, 3, 16, 3});
  CHECK(batch["token_types"].to_vector() == Values{0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1});
  CHECK(batch["labels"].shape() == Shape{2, 2});
  CHECK(batch["labels"].to_vector() == Values{1, 1, 0, 0});

  OptionValues scores{{"text", std::string("q")}, {"label", std::string("score")}};
  const DatasetPtr numbers = files.open("text", "train.jsonl", scores);
  CHECK(numbers->info().classes.empty());
  CHECK(all_of(numbers)["labels"].to_vector() == Values{2.5, -1});
  scores["label"] = std::string("n");
  CHECK(files.open("text", "train.jsonl", scores)->info().classes.size() == 4);
  scores["labels"] = std::string("numbers");
  CHECK(all_of(files.open("text", "train.jsonl", scores))["labels"].to_vector() == Values{3, 0});

  OptionValues separate = scores;
  separate["pair"] = std::string("p");
  separate["separate"] = true;
  const Batch two = all_of(files.open("text", "train.jsonl", separate));
  CHECK(two["tokens"].to_vector() == Values{2, 9, 10, 11, 3, 2, 11, 3});
  CHECK(two["pair_tokens"].to_vector() == Values{2, 15, 3, 2, 16, 3});
  CHECK(two["pair_offsets"].to_vector() == Values{0, 3, 6});
}

TEST_CASE("text: what is wrong is told with file and line") {
  Files files;
  const OptionValues named{{"text", std::string("text")}, {"label", std::string("label")}};
  const auto refused = [&](const char* file, std::string_view text, std::string_view part) {
    files.write(file, text);
    check_says(files.refusal("text", file, named), part);
  };
  refused("train.tsv", "text\tlabel\na\t1\n\xff\t0\n", "train.tsv:3: expected text in UTF-8, got byte 0xff");
  refused("train.tsv", "text\tlabel\na\t1\nb\n", "train.tsv:3: expected 2 columns");
  refused("train.tsv", "text\tlabel\n \t1\n", "train.tsv:2: expected a text in `text`");
  refused("train.tsv", "text\tlabel\na\t\n", "train.tsv:2: expected a label in `label`");
  refused("train.tsv", "text\tlabel\na\t1\n\nb\t0\n", "train.tsv:3: expected a row, got an empty line");
  refused("train.tsv", "text\tscore\na\t1\n", "expected a column `label`, got the columns text, score");
  refused("train.tsv", "text\tlabel\n", "expected rows");
  refused("train.tsv", "", "empty file");
  refused("train.csv", "text,label\n\"a\" b,1\n", "train.csv:2: expected a comma");
  refused("train.csv", "text,label\na \"b\",1\n", "train.csv:2: expected quotes around");
  refused("train.csv", "text,label\na,1\n\"a,1\nb,0\n", "train.csv:3: a quote is opened");
  refused("train.jsonl", "{\"text\": \"a\", \"label\": 0}\n{\"text\": \"a\"}\n", "train.jsonl:2: expected `label`");
  refused("train.jsonl", "{\"text\": \"a\", \"label\": 0}\n{\"text\": ", "train.jsonl:2: expected a JSON object");
  refused("train.jsonl", "{\"text\": \"a\", \"label\": 0}\n[]\n", "train.jsonl:2: expected an object");
  files.write("train.tsv", "a\t0\nbad\t1\n");
  files.write("dev.tsv", "a\t0\nbad\t2\n");
  check_says(files.refusal("text", "train.tsv", {}, Split::validation), "dev.tsv:2: expected one of the labels 0, 1");
  check_says(files.refusal("text", "nowhere"), "nowhere");
  check_says(files.refusal("text", "train.tsv", {{"padding", std::string("most")}}), "data set text: padding");
  check_says(files.refusal("text", "train.tsv", {{"tokenizer", std::string()}}), "data.tokenizer");
}

TEST_CASE("text: labels are read as their column means them") {
  struct Case {
    const char *name, *rows;
    Values labels;
    std::vector<std::string> classes;
    OptionValues settings{};
  };
  const std::string multi_hot = R"({"text": "a", "labels": [0, 1, 1]})"
                                "\n"
                                R"({"text": "bad", "labels": [1, 0, 0]})"
                                "\n";
  const std::string listed = R"([{"text": "a", "label": "x"},
 {"text": "bad",
  "label": "y"}])";
  for (const Case& one : std::initializer_list<Case>{
           {"multi.jsonl", multi_hot.c_str(), {0, 1, 1, 1, 0, 0}, {"0", "1", "2"}},
           {"named.jsonl",
            multi_hot.c_str(),
            {0, 1, 1, 1, 0, 0},
            {"x", "y", "z"},
            {{"labels", std::string("x, y, z")}}},
           {"numbers.jsonl",
            "{\"text\": \"a\", \"labels\": [0, 2]}\n{\"text\": \"bad\", \"labels\": [1]}\n",
            {1, 0, 1, 0, 1, 0},
            {"0", "1", "2"}},
           {"from_one.csv", "text,label\na,1\nbad,2\na,5\n", {0, 1, 4}, {"1", "2", "3", "4", "5"}},
           {"from_zero.csv", "text,label\na,0\nbad,2\n", {0, 2}, {"0", "1", "2"}},
           {"whole.csv", "text,label\na,0.0\nbad,1.0\n", {0, 1}, {"0", "1"}},
           {"given.csv", "text,label\na,0.0\nbad,1.0\n", {0, 1}, {"x", "y"}, {{"labels", std::string("x, y")}}},
           {"fraction.csv", "text,score\na,0.5\nbad,1\n", {0.5, 1}, {}},
           {"null.csv",
            "text,label\na,null\nbad,nan\n",
            {0, 1},
            {"null", "nan"},
            {{"labels", std::string("null, nan")}}},
           {"cells.csv", "text,labels\na,\"['x', 'y']\"\nbad,\"['y']\"\n", {1, 1, 0, 1}, {"x", "y"}},
           {"split.csv", "text,labels\na,x|y\nbad,y\n", {1, 1, 0, 1}, {"x", "y"}, {{"separator", std::string("|")}}},
           {"columns.csv", "text,x,y\na,1,1\nbad,0,1\n", {1, 1, 0, 1}, {"x", "y"}, {{"label", std::string("x, y")}}},
           {"ordered.csv",
            "text,x,y\na,1,1\nbad,0,1\n",
            {1, 1, 1, 0},
            {"y", "x"},
            {{"label", std::string("x, y")}, {"labels", std::string("y, x")}}},
           {"semicolon.csv", "text;label\na;x\n\"a;a\";y\n", {0, 1}, {"x", "y"}},
           {"kaggle.csv", "review,sentiment\na,x\nbad,y\n", {0, 1}, {"x", "y"}},
           {"other.csv", "utterance,label\na,x\nbad,y\n", {0, 1}, {"x", "y"}},
           {"list.json", listed.c_str(), {0, 1}, {"x", "y"}},
       }) {
    CAPTURE(one.name);
    Files files;
    files.write(one.name, one.rows);
    const DatasetPtr data = files.open("text", one.name, one.settings);
    CHECK(data->info().classes == one.classes);
    CHECK(all_of(data)["labels"].to_vector() == one.labels);
  }
  for (const auto& [rows, word] : {std::pair{"text,label\na,x\nbad,nan\n", "data.labels"},
                                   {"text,label\na,1\nbad,None\n", "data.labels"},
                                   {"text,label\na,x\nbad,x\n", "data.label"},
                                   {"text,label\na,100\nbad,900\n", "data.labels=numbers"}}) {
    CAPTURE(rows);
    Files files;
    files.write("train.csv", rows);
    check_says(files.refusal("text", "train.csv"), word);
  }
}

TEST_CASE("text: pairs need no label, and two files of one split are refused") {
  Files files;
  const OptionValues separate{{"separate", true}};
  for (const char* const rows : {"sentence1,sentence2\na,bad\n", "anchor,positive\na,bad\n"}) {
    files.write("pairs.csv", rows);
    const Batch batch = all_of(files.open("text", "pairs.csv", separate));
    CHECK(batch["pair_tokens"].to_vector() == Values{2, 7, 3});
  }
  files.write("train.csv", "text,label\na,x\nbad,y\n");
  files.write("train.tsv", "text\tlabel\na\tx\nbad\ty\n");
  check_says(files.refusal("text", ""), "train.csv");
}

TEST_CASE("lines and words with tags are recognised by their content, alone and in a folder") {
  const std::string words = "john B-PER\nfilms O\n\nparis B-LOC\n";
  for (const auto& [name, text, kind] : {std::tuple{"a/train.conll", "john NNP\nfilms VB\n", "tagged_text"},
                                         {"b/train.txt", words.c_str(), "tagged_text"},
                                         {"c/train.tsv", "john\tB-PER\nfilms\tO\n", "tagged_text"},
                                         {"d/train.tsv", "good film\t1\nbad\t0\n", "text"},
                                         {"e/train.txt", "a good film\nbad\n", "plain_text"},
                                         {"f/train.txt", "a.jpg 0\nb.jpg 1\n", ""},
                                         {"g/train.txt", "a good film\t1\nbad\t0\n", ""}}) {
    CAPTURE(name);
    const Files files;
    files.write(name, text);
    for (const std::filesystem::path& path : {files / name, (files / name).parent_path()}) {
      std::string found;
      const std::string refused = test::refusal_of([&] { found = recognize_dataset(path).name; });
      CHECK(found == kind);
      CHECK(refused.empty() != found.empty());
    }
  }
}

TEST_CASE("a path of no data set is told what it lacks") {
  const Files files;
  std::filesystem::create_directories(files / "empty");
  files.write("flat/1.jpg", "x");
  files.write("flat/2.jpg", "x");
  const auto refusal = [&](const std::string& path) {
    return test::refusal_of([&] { recognize_dataset(files / path); });
  };
  check_says(refusal("empty"), "empty folder");
  check_says(refusal("flat"), "2 pictures");
  check_says(refusal("nowhere"), "does not exist");
}

TEST_CASE("a JSON list holds objects with commas between them, and is refused with its line otherwise") {
  const std::string one = R"({"text": "a ]},{[\" \\", "label": "x"})", two = R"({"text": "bad", "label": "y"})";
  const Files files;
  const auto open = [&](const std::string& text) {
    files.write("list.json", text);
    return files.open("text", "list.json");
  };
  for (const std::string& text :
       {"[" + one + "," + two + "]", "\xef\xbb\xbf \r\n[\r\n" + one + "\r\n,\n" + two + "\n]\n"})
    CHECK(open(text)->size() == 2);
  const std::string many(20'000, ' ');  // several blocks
  CHECK(open("[" + many + one + many + "," + many + two + many + "]")->size() == 2);
  for (const auto& [text, line] : {std::pair{"[" + one + ",\nnull, " + two + "]", ":2:"},
                                   {"[" + one + ", " + two + ",\n\n\"x\"]", ":3:"},
                                   {"[" + one + "\n" + two + "]", ":2:"},
                                   {"[" + one + ",,\n" + two + "]", ":1:"},
                                   {"[" + one + "," + two + ",]", ":1:"},
                                   {"[" + one + "," + two + "]\n{}", ":2:"},
                                   {"[" + one + "," + two, ":1:"},
                                   {"[" + one + ",\n{\"text\": \"a\"", ":2:"},
                                   {"[" + one + ",[" + two + "]]", ":1:"}}) {
    CAPTURE(text);
    check_says(test::refusal_of([&, list = text] { open(list); }), line);
  }
}

TEST_CASE("a number stands for a class only where no class is named by one") {
  Files files;
  files.write("train.tsv", "a\t1\ngood\t0\n");
  files.write("train.jsonl", "{\"tokens\": [\"a\", \"good\"], \"tags\": [1, 0]}\n");
  const auto labels = [](const char* names) { return OptionValues{{"labels", std::string(names)}}; };
  CHECK(all_of(files.open("text", "train.tsv", labels("no, yes")))["labels"].to_vector() == Values{1, 0});
  CHECK(all_of(files.open("text", "train.tsv", labels("1, 0")))["labels"].to_vector() == Values{0, 1});
  CHECK(all_of(files.open("tagged_text", "train.jsonl", labels("1, 0")))["labels"].to_vector() ==
        Values{-100, 0, 1, -100});
  CHECK(all_of(files.open("tagged_text", "train.jsonl", labels("no, yes")))["labels"].to_vector() ==
        Values{-100, 1, 0, -100});
  check_says(files.refusal("text", "train.tsv", labels("1, 2, 3")), "train.tsv:2: expected one of the labels 1, 2, 3");
  check_says(files.refusal("tagged_text", "train.jsonl", labels("1, 2, 3")), "train.jsonl:1");
}

TEST_CASE("text: padding, truncation, and a second epoch from the cache") {
  Files files;
  files.write("train.tsv", "a good film\t1\nbad\t0\n");
  const DatasetPtr padded = files.open("text", "", {{"padding", std::string("longest")}, {"max_length", 4.0}});
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Batch batch = all_of(padded);
    CHECK(batch["tokens"].shape() == Shape{2, 4});
    CHECK(batch["tokens"].to_vector() == Values{2, 5, 6, 3, 2, 7, 3, 0});
    CHECK(batch["key_lengths"].to_vector() == Values{4, 3});
    files.write("train.tsv", "");  // what was read once is not read again
  }
}

TEST_CASE("a batch by length has similar lengths, every sample once, and another order in each epoch") {
  Files files;
  std::string rows;
  for (int i = 0; i < 200; ++i) {
    for (int word = 0; word <= i * 7 % 20; ++word) rows += "a ";
    rows += "\t" + std::to_string(i) + "\n";
  }
  files.write("train.tsv", rows);
  const DatasetPtr data = files.open("text", "", {{"labels", std::string("numbers")}});
  const auto padding = [&](const DatasetPtr& dataset, std::set<double>& seen, std::int64_t epoch) {
    const Batches batches(dataset, {.size = 10});
    std::int64_t real = 0, padded = 0;
    for (std::int64_t first = 0; first < 200; first += 10) {
      Sample sample;
      const Batch batch = batches.read(epoch, first, batches.allocate(), sample);
      for (const double label : batch["labels"].to_vector()) seen.insert(label);
      const Values offsets = batch["offsets"].to_vector();
      double longest = 0;
      for (std::size_t i = 1; i < offsets.size(); ++i) longest = std::max(longest, offsets[i] - offsets[i - 1]);
      if (first == 0 && dataset->size() == 200) CHECK(longest >= 3);
      real += static_cast<std::int64_t>(offsets.back());
      padded += static_cast<std::int64_t>(longest) * 10;
    }
    return static_cast<double>(padded) / static_cast<double>(real);
  };
  std::set<double> plain, grouped, again;
  const DatasetPtr by_length = shuffle_by_length(with_draws(transform(data, {}, 3), 3), 3, 10);
  const double random = padding(shuffle(data, 3), plain, 0), sorted = padding(by_length, grouped, 0);
  CHECK(sorted < random);
  CHECK(sorted < 1.35);
  CHECK(grouped.size() == 200);
  padding(by_length, again, 1);
  CHECK(again.size() == 200);
  const auto first_labels = [&](std::int64_t epoch) {
    const Batches batches(by_length, {.size = 10});
    Sample sample;
    return batches.read(epoch, 50, batches.allocate(), sample)["labels"].to_vector();
  };
  CHECK(first_labels(0) != first_labels(1));
  CHECK(first_labels(0) == first_labels(0));
  Sample sample;
  sample.begin(0);
  by_length->read(0, sample);
  CHECK(sample["tokens"].shape().front() == 22);  // the longest of all comes first
}

TEST_CASE("draws of samples are a function of seed, epoch and sample, in whatever batches") {
  Files files;
  files.write("train.tsv", "a\t0\nbad\t1\ngood\t2\nfilm\t3\na film\t4\n");
  const DatasetPtr data = files.open("text", "", {{"labels", std::string("numbers")}});
  const auto draws = [&](std::int64_t size, std::int64_t epoch, std::uint64_t order, std::uint64_t seed) {
    const Batches batches(shuffle(with_draws(data, seed), order), {.size = size});
    std::map<double, double> of_sample;
    for (std::int64_t first = 0; first < 5; first += size) {
      Sample sample;
      const Batch batch = batches.read(epoch, first, batches.allocate(), sample);
      const Values numbers = batch["draw"].to_vector(), labels = batch["labels"].to_vector();
      for (std::size_t i = 0; i < numbers.size(); ++i) of_sample[labels[i]] = numbers[i];
    }
    return of_sample;
  };
  CHECK(draws(5, 2, 1, 3) == draws(2, 2, 9, 3));
  CHECK(draws(5, 2, 1, 3) != draws(5, 1, 1, 3));
  CHECK(draws(5, 2, 1, 3) != draws(5, 2, 1, 4));
}

TEST_CASE("squad: the answer's tokens, and the first token where there is no answer") {
  Files files;
  files.write("train.json", R"({"data": [{"paragraphs": [{"context": "é film john made it", "qas": [
      {"id": "1", "question": "who made it", "answers": [{"text": "john made", "answer_start": 7}]},
      {"id": "2", "question": "who", "answers": [], "is_impossible": true}]}]}]})");
  const Batch batch = all_of(files.open("squad", "train.json"));
  CHECK(batch["tokens"].to_vector() == Values{2, 9, 10, 11, 3, 1, 8, 15, 10, 11, 3, 2, 9, 3, 1, 8, 15, 10, 11, 3});
  CHECK(batch["labels"].to_vector() == Values{7, 8, 0, 0});
  const DatasetPtr cut = files.open("squad", "train.json", {{"max_length", 9.0}, {"stride", 0.0}});
  CHECK(all_of(cut)["labels"].to_vector() == Values{0, 0, 0, 0, 0, 0});  // no window holds the answer whole
  files.write("train.json", R"({"data": [{"paragraphs": [{"context": "a film", "qas": [
      {"id": "x7", "question": "who", "answers": [{"text": "good", "answer_start": 1}]}]}]}]})");
  check_says(files.refusal("squad", "train.json"), "question x7: expected the answer `good`");
  files.write("train.json", R"({"data": {}})");
  check_says(files.refusal("squad", "train.json"), "expected `data`");
}

TEST_CASE("squad: the flat form, in a file, a list and lines") {
  const std::string first = R"({"id": "1", "context": "é film john made it", "question": "who made it",
      "answers": {"text": ["john made"], "answer_start": [7]}})";
  const std::string second = R"({"id": "2", "context": "é film john made it", "question": "who",
      "answers": {"text": [], "answer_start": []}})";
  const auto one_line = [](std::string text) {
    std::erase(text, '\n');
    return text;
  };
  for (const std::string& text :
       {R"({"version": "v2", "data": [)" + first + ", " + second + "]}", "[" + first + ", " + second + "]",
        one_line(first) + "\n" + one_line(second) + "\n"}) {
    CAPTURE(text);
    Files files;
    files.write("train.json", text);
    const DatasetPtr data = files.open("squad", "train.json");
    const Batch batch = all_of(data);
    CHECK(batch["tokens"].to_vector() == Values{2, 9, 10, 11, 3, 1, 8, 15, 10, 11, 3, 2, 9, 3, 1, 8, 15, 10, 11, 3});
    CHECK(batch["labels"].to_vector() == Values{7, 8, 0, 0});
    CHECK(data->info().description.find("on 1 passages") != std::string::npos);
  }
  Files files;
  files.write("train.json", R"([{"id": "x7", "context": "a film", "question": "who", "answers": {"text": ["a"]}}])");
  check_says(files.refusal("squad", "train.json"), "answer_start");
  files.write("train.jsonl", one_line(first) + "\n{\n");
  check_says(files.refusal("squad", "train.jsonl"), "train.jsonl:2");
}

TEST_CASE("squad: long passages are windows that share pieces; to evaluate they carry passage, spans and answers") {
  Files files;
  files.write("train.json", R"({"data": [{"paragraphs": [{"context": "a film, good bad john made it who", "qas": [
      {"id": "1", "question": "who", "answers": [{"text": "john made", "answer_start": 17},
                                                 {"text": "made", "answer_start": 22}]},
      {"id": "2", "question": "who", "answers": []}]}]}]})");
  // Beside [CLS] who [SEP] and [SEP], 4 pieces of 9: a film , good | good bad john made | made it who.
  const OptionValues settings{{"max_length", 8.0}, {"stride", 1.0}};
  const DatasetPtr data = files.open("squad", "", settings);
  REQUIRE(data->size() == 6);
  const Batch batch = all_of(data);
  CHECK_FALSE(batch.contains("passage"));
  CHECK(batch["tokens"].to_vector() == Values{2, 9, 3, 5,  8,  13, 6, 3, 2, 9, 3,  6,  7,  15, 10, 3,
                                              2, 9, 3, 10, 11, 9,  3, 2, 9, 3, 5,  8,  13, 6,  3,  2,
                                              9, 3, 6, 7,  15, 10, 3, 2, 9, 3, 10, 11, 9,  3});
  CHECK(batch["labels"].to_vector() == Values{0, 0, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0});
  std::filesystem::copy_file(files / "train.json", files / "dev.json");
  const Batch dev = all_of(files.open("squad", "", settings, Split::validation));
  CHECK(dev["question"].to_vector() == Values{0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1});
  const std::string passage = "a film, good bad john made it who\xff";
  const auto text = [](const Tensor& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data<const std::uint8_t>()),
                       static_cast<std::size_t>(bytes.count()));
  };
  CHECK(text(dev["passage"]).substr(0, 2 * passage.size()) == passage + passage);
  CHECK(text(dev["answers"]).substr(0, 15) == "john made\xffmade\xff");
  CHECK(text(dev["answers"]).size() == 3 * 15 + 3);
  const Values spans = dev["spans"].to_vector();
  CHECK(Values(spans.begin() + 2 * 13, spans.begin() + 2 * 16) == Values{17, 21, 22, 26, -1, -1});
  check_says(files.refusal("squad", "", {{"max_length", 8.0}}), "data.stride");
}

TEST_CASE("answers are compared as the official script does") {
  struct Case {
    std::string given;
    std::vector<std::string> wanted;
    double exact, f1;  // by evaluate-v2.0.py
  };
  const std::vector<Case> cases{{"The Eiffel Tower", {"eiffel tower."}, 1, 1},
                                {"in the city of Paris, France", {"Paris", "Paris, Texas"}, 0, 1.0 / 3},
                                {"a-the b", {"athe b"}, 1, 1},
                                {"\u00c9. AN\u2013the x", {"\u00e9 \u2013x"}, 0, 0.4},
                                {"", {}, 1, 1},
                                {"the", {}, 1, 1},
                                {"Paris", {}, 0, 0},
                                {"", {"the"}, 1, 1},
                                {"one one two", {"one two two", "two"}, 0, 2.0 / 3},
                                {"  An\u00a0apple a day\t", {"apple day"}, 1, 1},
                                {"10,000", {"10000"}, 1, 1},
                                {"a\u0301b the", {"\u0301b"}, 1, 1},
                                {"$5 an hour", {"5 hour"}, 1, 1}};
  for (const Case& one : cases) {
    CAPTURE(one.given);
    const AnswerScore score = score_answer(one.given, one.wanted);
    CHECK(score.exact == one.exact);
    CHECK(score.f1 == doctest::Approx(one.f1));
  }
}

TEST_CASE("random tokens: labels for every head") {
  const auto batch = [](const char* target) {
    return all_of(open_dataset(
        "random_tokens",
        {.train_size = 6, .lengths = {5, 9}, .classes = 3, .settings = {{"target", std::string(target)}}}));
  };
  CHECK(batch("class")["labels"].to_vector() == Values{0, 1, 2, 0, 1, 2});
  CHECK(batch("number")["labels"].to_vector() == Values{0, 1, 2, 0, 1, 2});
  CHECK(batch("number")["labels"].dtype() == DType::f32);
  CHECK(batch("classes")["labels"].to_vector() == Values{1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1});
  const Batch tokens = batch("tokens"), span = batch("span");
  REQUIRE(tokens["labels"].shape() == tokens["tokens"].shape());
  const Values ids = tokens["tokens"].to_vector(), labels = tokens["labels"].to_vector();
  for (std::size_t i = 0; i < ids.size(); ++i)
    CHECK(labels[i] == (ids[i] == 101 || ids[i] == 102 ? -100 : std::fmod(ids[i], 3)));
  const Values places = span["labels"].to_vector();
  REQUIRE(places.size() == 12);
  for (std::size_t i = 0; i < 12; i += 2) CHECK((places[i] >= 1 && places[i + 1] == places[i] + 1));
  CHECK_THROWS_AS(batch("words"), Error);
}

TEST_CASE("plain text: a sample a line, without labels") {
  Files files;
  files.write("train.txt", "a film\tgood\n\nbad\n");
  const DatasetPtr data = files.open("plain_text", "train.txt");
  CHECK(data->size() == 2);
  CHECK(all_of(data)["tokens"].to_vector() == Values{2, 5, 8, 6, 3, 2, 7, 3});
}

TEST_CASE("a loader gives the same texts with any number of workers") {
  Files files;
  std::string rows;
  for (int i = 0; i < 40; ++i) rows += (i % 3 == 0 ? "a good film\t" : "bad\t") + std::to_string(i % 2) + "\n";
  files.write("train.tsv", rows);
  std::vector<Values> first;
  for (const int workers : {1, 3}) {
    Loader loader(Batches(shuffle(files.open("text", ""), 5), {.size = 8}), {.end_epoch = 2, .workers = workers});
    std::vector<Values> seen;
    while (const std::optional<Batch> batch = loader.next()) seen.push_back((*batch)["tokens"].to_vector());
    CHECK(seen.size() == 10);
    if (first.empty()) first = seen;
    CHECK(seen == first);
  }
}

TEST_CASE("inputs of a user become samples without targets") {
  Files files;
  const DatasetOptions options{.settings = {{"tokenizer", (files / "vocab.txt").string()}}};
  const auto inputs = dataset_kinds().get("text").inputs(options);
  Sample sample;
  sample.begin(0);
  inputs->read("a good film", sample);
  CHECK(sample["tokens"].to_vector() == Values{2, 5, 6, 8, 3});
  CHECK(collate(std::span(&sample, 1), inputs->fields())["offsets"].to_vector() == Values{0, 5});
  sample.begin(0);
  inputs->read_pair("a", "film", sample);
  CHECK(sample["token_types"].to_vector() == Values{0, 0, 0, 1, 1});
}

}  // namespace
}  // namespace lacuna
