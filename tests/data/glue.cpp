#include "tests/data/text_files.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

using test::all_of, test::check_says, test::Files, test::Values;

TEST_CASE("glue: columns, labels and files of the nine tasks") {
  struct Case {
    const char *task, *folder, *header, *row, *file;
    double label;
    std::int64_t tokens;
  };
  const Case cases[] = {
      {"cola", "CoLA", "", "gj04\t0\t*\ta \"good film", "dev.tsv", 0, 6},
      {"sst2", "SST-2", "sentence\tlabel\n", "a film\t1", "dev.tsv", 1, 4},
      {"mrpc", "MRPC", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", "1\t7\t8\ta\tfilm", "dev.tsv", 1, 5},
      {"stsb", "STS-B", "index\tsentence1\tsentence2\tscore\n", "0\ta\tgood film\t3.200", "dev.tsv", 3.2F, 6},
      {"qqp", "QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n", "1\t2\t3\twho made it\tit\t0\n1\t2\tcut",
       "dev.tsv", 0, 7},
      {"mnli", "MNLI", "index\tsentence1\tsentence2\tlabel1\tgold_label\n", "0\ta\tfilm\tneutral\tcontradiction",
       "dev_matched.tsv", 2, 5},
      {"mnli_mismatched", "MNLI", "index\tsentence1\tsentence2\tlabel1\tgold_label\n", "0\ta\tfilm\t-\tneutral",
       "dev_mismatched.tsv", 1, 5},
      {"qnli", "QNLI", "index\tquestion\tsentence\tlabel\n", "0\twho\tjohn\tnot_entailment", "dev.tsv", 1, 5},
      {"rte", "RTE", "index\tsentence1\tsentence2\tlabel\n", "0\ta\tfilm\tentailment", "dev.tsv", 0, 5},
      {"wnli", "WNLI", "index\tsentence1\tsentence2\tlabel\n", "0\ta\tfilm\t1", "dev.tsv", 1, 5},
  };
  for (const Case& each : cases) {
    CAPTURE(each.task);
    Files files;
    const std::string text = std::string(each.header) + each.row + "\n", folder = each.folder;
    files.write(folder + "/train.tsv", text);
    files.write(folder + "/" + each.file, text);
    const OptionValues task{{"task", std::string(each.task)}};
    for (const Split split : {Split::train, Split::validation})
      for (const std::string& path : {folder, std::string()}) {
        const Batch batch = all_of(files.open("glue", path, task, split));
        CHECK(batch["labels"].to_vector() == Values{each.label});
        CHECK(batch["tokens"].count() == each.tokens);
      }
    CHECK(!files.open("glue", "", task)->info().metrics.empty());
  }
  Files files;
  check_says(files.refusal("glue", "", {{"task", std::string("sst3")}}), "data.task: expected one of cola, sst2");
  check_says(files.refusal("glue", "", {{"task", std::string("rte")}}), "RTE/train.tsv");
  files.write("train.tsv", "a film\t1\n");
  check_says(files.refusal("glue", "", {{"task", std::string("sst2")}}), "expected a column `label`");
  files.write("train.tsv", "sentence\tlabel\na film\t7\n");
  check_says(files.refusal("glue", "", {{"task", std::string("sst2")}}), "train.tsv:2: expected one of the labels");
}

TEST_CASE("glue: headers and rows as published") {
  Files files;
  const std::string inference =
      "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_"
      "parse\t"
      "sentence1\tsentence2\t";
  const std::string start = "0\t31193\t31193n\tgovernment\t( ( a ) )\t( b )\t(ROOT (NP a))\t(ROOT b)\ta\t\"film\t";
  // Two labels in the training file, six in those to evaluate on.
  files.write("MNLI/train.tsv", inference + "label1\tgold_label\n" + start + "neutral\tneutral\n");
  files.write("MNLI/dev_matched.tsv", inference + "label1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n" + start +
                                          "neutral\tneutral\tneutral\tneutral\tentailment\tcontradiction\n");
  // A byte order mark, CRLF, and quotes that are not closed.
  files.write("MRPC/train.tsv",
              "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
              "1\t702876\t702977\ta \"good film\tgood \"\r\n0\t1\t2\ta\tbad\r\n");
  files.write("STS-B/train.tsv",
              "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
              "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\ta\tfilm\t5.000\n"
              "1\tmain-news\tmttest\t2016\t\t\t\tgood\tbad\t0.250\n");
  // Rows that a line break within a question has cut.
  files.write("QQP/train.tsv",
              "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
              "1\t2\t3\twho made\n it\t1\n2\t4\t5\ta\tfilm\t1\n");
  files.write("CoLA/train.tsv", "gj04\t1\t\ta film\ngj04\t0\t*\ta, \"\n");
  const auto batch = [&](const char* task, Split split = Split::train) {
    CAPTURE(task);
    return all_of(files.open("glue", "", {{"task", std::string(task)}}, split));
  };
  CHECK(batch("mnli")["labels"].to_vector() == Values{1});
  CHECK(batch("mnli")["tokens"].to_vector() == Values{2, 5, 3, 14, 8, 3});
  CHECK(batch("mnli", Split::validation)["labels"].to_vector() == Values{2});
  CHECK(batch("mrpc")["tokens"].to_vector() == Values{2, 5, 14, 6, 8, 3, 6, 14, 3, 2, 5, 3, 7, 3});
  CHECK(batch("mrpc")["labels"].to_vector() == Values{1, 0});
  CHECK(batch("stsb")["labels"].to_vector() == Values{5, 0.25});
  CHECK(batch("stsb")["tokens"].to_vector() == Values{2, 5, 3, 8, 3, 2, 6, 3, 7, 3});
  CHECK(batch("qqp")["tokens"].to_vector() == Values{2, 5, 3, 8, 3});
  CHECK(batch("cola")["labels"].to_vector() == Values{1, 0});
}

TEST_CASE("glue: qqp and mnli have cut rows, empty texts and missing labels, as published; other tasks have none") {
  struct Case {
    std::string task, file, header, whole, before, between, behind;  // a row: before, text, between, text, behind
  };
  const std::vector<Case> cases{
      {"qqp", "QQP/train.tsv", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1", "1\t2\t3\t", "\t", "\t"},
      {"mnli", "MNLI/train.tsv", "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label", "contradiction",
       "1\tfiction\t", "\t", "\tneutral\t"},
      {"rte", "RTE/train.tsv", "index\tsentence1\tsentence2\tlabel", "entailment", "1\t", "\t", "\t"},
      {"qnli", "QNLI/train.tsv", "index\tquestion\tsentence\tlabel", "not_entailment", "1\t", "\t", "\t"},
      {"wnli", "WNLI/train.tsv", "index\tsentence1\tsentence2\tlabel", "1", "1\t", "\t", "\t"},
      {"mrpc", "MRPC/train.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1", "1\t2\t3\t", "\t", ""}};
  for (const Case& one : cases) {
    CAPTURE(one.task);
    Files files;
    const bool label_ends = one.task != "mrpc", lenient = one.task == "qqp" || one.task == "mnli";
    const std::string label = label_ends ? one.whole : "";
    const auto row = [&](const std::string& first, const std::string& second) {
      return one.before + first + one.between + second + one.behind + label + "\n";
    };
    const std::string start = one.header + "\n" + row("\"a film", "good \"\"") + row("a", "it\"s");
    const OptionValues task{{"task", one.task}};
    files.write(one.file, start);
    const Batch whole = all_of(files.open("glue", "", task));
    CHECK(whole.samples == 2);
    CHECK(whole["tokens"].to_vector() == Values{2, 14, 5, 8, 3, 6, 14, 14, 3, 2, 5, 3, 11, 14, 1, 3});
    std::vector<std::pair<std::string, std::int64_t>> irregular{
        {row("a", ""), 3},
        {one.before + "a\n", 2},
        {row("a", "film").substr(0, row("a", "film").size() - 1) + "\tx\n", 3}};
    if (label_ends) irregular.emplace_back(one.before + "a" + one.between + "film" + one.behind + "\n", 2);
    for (const auto& [more, size] : irregular) {
      CAPTURE(more);
      files.write(one.file, start + more);
      if (lenient)
        CHECK(files.open("glue", "", task)->size() == size);
      else
        check_says(files.refusal("glue", "", task), one.file + ":4");
    }
  }
}

TEST_CASE("glue: the diagnostic set is evaluated by what MNLI trains") {
  Files files;
  files.write("MNLI/train.tsv", "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tfilm\tneutral\tneutral\n");
  files.write("diagnostic/diagnostic-full.tsv",
              "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel\n"
              "\t\tNegation\t\tArtificial\ta film\tbad\tcontradiction\n");
  const OptionValues task{{"task", std::string("ax")}};
  CHECK(all_of(files.open("glue", "", task))["labels"].to_vector() == Values{1});
  const Batch batch = all_of(files.open("glue", "", task, Split::validation));
  CHECK(batch["labels"].to_vector() == Values{2});
  CHECK(batch["tokens"].to_vector() == Values{2, 5, 8, 3, 7, 3});
}

TEST_CASE("glue: scores are numbers, and the first row of cola is a sample") {
  Files files;
  const std::string header = "index\tsentence1\tsentence2\tscore\n";
  const OptionValues scores{{"task", std::string("stsb")}}, acceptable{{"task", std::string("cola")}};
  files.write("STS-B/train.tsv", header + "0\ta\tfilm\t4.750\n1\ta\tfilm\t0\n");
  CHECK(all_of(files.open("glue", "", scores))["labels"].to_vector() == Values{4.75, 0});
  for (const char* const score : {"high", "nan", ""}) {
    files.write("STS-B/train.tsv", header + "0\ta\tfilm\t" + score + "\n");
    check_says(files.refusal("glue", "", scores), "STS-B/train.tsv:2");
  }
  files.write("CoLA/train.tsv", "gj04\t1\t\ta film\nbc01\t0\t??\t\"bad\n");
  CHECK(all_of(files.open("glue", "", acceptable))["labels"].to_vector() == Values{1, 0});
  files.write("CoLA/train.tsv", "source\tlabel\tmark\tsentence\ngj04\t1\t\ta film\n");
  check_says(files.refusal("glue", "", acceptable), "CoLA/train.tsv:1");
}

TEST_CASE("glue: another order of the classes, whether the file has names or numbers") {
  Files files;
  files.write("SST-2/train.tsv", "sentence\tlabel\na film\t1\nbad\t0\n");
  const auto labels = [&](const char* task, const char* order) {
    return all_of(files.open("glue", "", {{"task", std::string(task)}, {"labels", std::string(order)}}))["labels"]
        .to_vector();
  };
  CHECK(labels("sst2", "") == Values{1, 0});
  CHECK(labels("sst2", "positive, negative") == Values{0, 1});
  files.write("RTE/train.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\ta\tentailment\n1\ta\ta\tnot_entailment\n");
  CHECK(labels("rte", "") == Values{0, 1});
  CHECK(labels("rte", "not_entailment, entailment") == Values{1, 0});
  check_says(files.refusal("glue", "", {{"task", std::string("rte")}, {"labels", std::string("yes, no")}}),
             "data.labels");
}

}  // namespace
}  // namespace lacuna
