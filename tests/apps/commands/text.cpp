// Texts from files to a trained model and back: train, eval, predict.
#include "tests/apps/train/train_run.h"

#include <fmt/core.h>

namespace lacuna::test {
namespace {

// A folder with a vocabulary, and texts whose class is their first word.
struct TextFolder : TemporaryFolder {
  explicit TextFolder(std::string_view settings = "") {
    write_file(*this / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\na\nfilm\n");
    std::string rows = "text,label\n";
    for (int i = 0; i < 24; ++i)
      rows += fmt::format("{}{} film,{}\n", i % 2 == 0 ? "good" : "bad", i % 3 == 0 ? " a a a" : "",
                          i % 2 == 0 ? "pos" : "neg");
    write_file(*this / "train.csv", rows);
    write_file(*this / "dev.csv", "text,label\ngood film,pos\nbad a film,neg\n");
    write_file(*this / "c.yaml",
               fmt::format("model: {{name: bert, vocab_size: 9, hidden_size: 16, num_hidden_layers: 1, "
                           "num_attention_heads: 2, intermediate_size: 16, max_position_embeddings: 32}}\n"
                           "data: {{name: text, path: train.csv, tokenizer: vocab.txt, max_length: 16{}}}\n"
                           "train: {{epochs: 8, batch_size: 4, threads: 1}}\n"
                           "optimizer: {{name: adamw, lr: 1e-2}}\n",
                           settings));
  }
};

TEST_CASE("text: train, eval and predict on a table of one's own") {
  const TextFolder folder;
  const CommandResult result = run_command(folder, train({"--json", "s.json"}));
  INFO(result.error);
  REQUIRE(result.code == 0);
  CHECK(result.out.find("train.csv: CSV, text in `text`, labels in `label`: 2 classes: neg, pos") != std::string::npos);
  CHECK(read_json(folder / "s.json").at("val_accuracy") == 1.0);
  CHECK(run_command(folder, {"eval", "runs/c", "--json", "-"}).json().at("val_accuracy") == 1.0);

  const CommandResult predicted = run_command(folder, {"predict", "runs/c", "good film", "bad"});
  INFO(predicted.error);
  REQUIRE(predicted.code == 0);
  std::istringstream lines(predicted.out);
  for (const char* const label : {"pos", "neg"}) {
    std::string line;
    std::getline(lines, line);
    const nlohmann::json json = nlohmann::json::parse(line);
    CHECK(json.at("label") == label);
    CHECK(json.at("probabilities").at("pos").get<double>() + json.at("probabilities").at("neg").get<double>() ==
          doctest::Approx(1));
  }
  write_file(folder / "in.txt", "bad film\ngood\n\xff\n");
  CHECK(run_command(folder, {"predict", "runs/c", "--input", "runs"}).code == 2);  // a folder
  const CommandResult broken = run_command(folder, {"predict", "runs/c/last", "--input", "in.txt"});
  CHECK(broken.code == 2);
  CHECK(broken.error.find("in.txt:3") != std::string::npos);
  write_file(folder / "in.txt", "bad film\ngood\n");
  const CommandResult from_file = run_command(folder, {"predict", "runs/c/last", "--input", "in.txt"});
  CHECK(from_file.code == 0);
  CHECK(std::ranges::count(from_file.out, '\n') == 2);
}

TEST_CASE("text: padded batches and batches by length train as packed ones") {
  double loss = 0;
  for (const char* const settings : {"", ", padding: longest", ", padding: longest, group_by_length: true"}) {
    const TextFolder folder(settings);
    const CommandResult result =
        run_command(folder, train({"--json", "-", "train.epochs=2", "model.hidden_dropout_prob=0",
                                   "model.attention_probs_dropout_prob=0"}));
    INFO(result.error);
    REQUIRE(result.code == 0);
    const double now = result.json().at("val_loss").get<double>();
    if (std::string_view(settings) == ", padding: longest") CHECK(now == doctest::Approx(loss).epsilon(1e-3));
    loss = now;
  }
}

TEST_CASE("text: what does not fit is refused before anything is trained") {
  const TextFolder folder;
  const auto refused = [&](std::vector<std::string> arguments, std::string_view part) {
    const CommandResult result = run_command(folder, train(std::move(arguments)));
    CAPTURE(result.error);
    CHECK(result.code == 2);
    CHECK(result.error.find(part) != std::string::npos);
  };
  refused({"model.vocab_size=8"}, "vocab_size");
  refused({"data.max_length=64"}, "max_position_embeddings");
  refused({"data.label=lable"}, "lable");
  refused({"data.validation=nowhere.csv"}, "nowhere.csv");
  refused({"task.name=regression"}, "labels f32");
  write_file(folder / "dev.csv", "text,label\ngood film,pos\nbad,other\n");
  refused({}, "dev.csv:3");
}

TEST_CASE("text: glue is judged by its own metrics") {
  const TextFolder folder;
  for (const char* const file : {"train.tsv", "dev.tsv"}) {
    std::string rows;
    for (int i = 0; i < 16; ++i) rows += fmt::format("x\t{}\t\t{} film\n", i % 2, i % 2 == 0 ? "bad" : "good");
    write_file(folder / file, rows);
  }
  const CommandResult result =
      run_command(folder, train({"data={name: glue, task: cola, path: ., tokenizer: vocab.txt, max_length: 16}",
                                 "train.epochs=1", "--json", "-"}));
  INFO(result.error);
  REQUIRE(result.code == 0);
  CHECK(result.json().contains("val_matthews"));
  CHECK(result.json().contains("val_accuracy"));
}

}  // namespace
}  // namespace lacuna::test
