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

std::vector<nlohmann::json> rows_of(const CommandResult& predicted) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(predicted.out);
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST_CASE("text: train, eval and predict on a table of one's own") {
  const TextFolder folder;
  const CommandResult result = test::run(folder, train({"--json", "s.json"}));
  check_says(result.out, "train.csv: CSV, text in `text`, labels in `label`: 2 classes: neg, pos");
  CHECK(read_json(folder / "s.json").at("val_accuracy") == 1.0);
  CHECK(run_command(folder, {"eval", "runs/c", "--json", "-"}).json().at("val_accuracy") == 1.0);

  const CommandResult predicted = test::run(folder, {"predict", "runs/c", "good film", "bad"});
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
  check_refused(folder, {"predict", "runs/c/last", "--input", "in.txt"}, {"in.txt:3"});
  write_file(folder / "in.txt", "bad film\ngood\n");
  const CommandResult from_file = run_command(folder, {"predict", "runs/c/last", "--input", "in.txt"});
  CHECK(from_file.code == 0);
  CHECK(std::ranges::count(from_file.out, '\n') == 2);
}

TEST_CASE("text: a checkpoint and an exported folder say all: predict needs no data") {
  const TextFolder folder;
  test::run(folder, train({"train.epochs=1"}));
  test::run(folder, {"export", "runs/c", "out"});
  for (const char* const where : {"runs/c/last", "out"}) {
    CHECK(read_file(folder / where / "vocab.txt") == read_file(folder / "vocab.txt"));
    const nlohmann::json config = read_json(folder / where / "config.json");
    CHECK(config.at("id2label").at("1") == "pos");
    CHECK(config.at("problem_type") == "single_label_classification");
  }
  for (const char* const file : {"train.csv", "dev.csv", "vocab.txt"}) std::filesystem::remove(folder / file);
  const CommandResult of_run = test::run(folder, {"predict", "runs/c", "good film", "bad"});
  check_says(of_run.out, "\"pos\"");
  CHECK(run_command(folder, {"predict", "out", "good film", "bad"}).out == of_run.out);
  CHECK(run_command(folder, {"predict", "out", "--max-length", "33", "good"}).code == 2);
  std::filesystem::remove(folder / "out/vocab.txt");
  CHECK(run_command(folder, {"predict", "out", "good"}).code == 2);
}

TEST_CASE("text: a checkpoint of adapters needs its base and no data") {
  const TextFolder folder;
  test::run(folder, train({"train.epochs=1", "output.dir=base"}));
  test::run(folder, {"export", "base", "base-folder"});
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"output.dir=runs/plain"},
        {"output.dir=runs/averaged", "train.ema_decay=0.5", "model.from=base/last"}}) {
    std::vector<std::string> arguments{"model.from=base-folder", "adapter={name: lora, rank: 2}"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    test::run(folder, train(arguments));
  }
  for (const char* const file : {"train.csv", "dev.csv", "vocab.txt", "c.yaml"}) fs::remove(folder / file);
  const auto shares = [](const CommandResult& result) {
    INFO(result.error);
    REQUIRE(result.code == 0);
    return nlohmann::json::parse(result.out).at("probabilities").at("pos").get<double>();
  };
  for (const std::string run : {"runs/plain", "runs/averaged"}) {
    const double share = shares(run_command(folder, {"predict", run, "good film"}));
    test::run(folder, {"export", run, run + "-out"});
    CHECK(share == doctest::Approx(shares(run_command(folder, {"predict", run + "-out", "good film"}))));
    fs::copy(fs::canonical(folder / run / "best"), folder / (run + "-copy"), fs::copy_options::recursive);
    CHECK(share == shares(run_command(folder, {"predict", run + "-copy", "good film"})));
  }
  // Neither other weights nor none stand in for the base.
  fs::copy_file(fs::canonical(folder / "runs/plain-out") / "model.safetensors",
                folder / "base-folder/model.safetensors", fs::copy_options::overwrite_existing);
  CHECK(run_command(folder, {"predict", "runs/plain", "good film"}).code == 2);
  fs::remove_all(folder / "base-folder");
  check_refused(folder, {"predict", "runs/plain", "good film"}, {(folder / "base-folder").string()});
}

TEST_CASE("text: a folder's order of classes holds for data with the same classes") {
  const TextFolder folder;
  test::run(folder, train({"data.labels=\"pos, neg\""}));
  test::run(folder, {"export", "runs/c", "out"});
  const CommandResult evaluated =
      run_command(folder, {"eval", "out", "data={name: text, path: train.csv, max_length: 16}", "--json", "-"});
  INFO(evaluated.error);
  REQUIRE(evaluated.code == 0);
  CHECK(evaluated.json().at("val_accuracy") == 1.0);
  CHECK(evaluated.json().at("notes").empty());
  // The worst samples are shown by their texts.
  write_file(folder / "wrong.csv", "text,label\ngood film,pos\nbad a film,neg\ngood a film,neg\n");
  const nlohmann::json figures =
      run(folder, {"eval", "out", "data={name: text, path: wrong.csv, max_length: 16}", "--json", "-"}).json();
  CHECK(figures.at("classes").at("worst").at(0).at("sample") == "\"good a film\"");
  // Another order that is given is refused.
  CHECK(run_command(folder, {"eval", "out", "data={name: text, path: train.csv, max_length: 16, labels: \"neg, pos\"}"})
            .code == 2);
}

TEST_CASE("text: an evaluation joins classes by name; training on others starts the head anew") {
  const TextFolder folder;
  test::run(folder, train({}));
  test::run(folder, {"export", "runs/c", "out"});
  const auto eval = [&](const std::string& file) {
    return run_command(folder, {"eval", "out", "data={name: text, path: " + file + ", max_length: 16}", "--json", "-"});
  };
  write_file(folder / "upper.csv", "text,label\ngood film,POS\nbad film,Neg\n");
  write_file(folder / "one.csv", "text,label\ngood film,pos\ngood,pos\n");
  for (const char* const file : {"upper.csv", "one.csv"}) {
    fs::copy_file(folder / file, folder / "train.csv", fs::copy_options::overwrite_existing);
    fs::copy_file(folder / file, folder / "dev.csv", fs::copy_options::overwrite_existing);
    const CommandResult evaluated = eval("train.csv");
    INFO(evaluated.error);
    REQUIRE(evaluated.code == 0);
    CHECK(evaluated.json().at("val_accuracy") == 1.0);
    CHECK(run(folder, {"eval", "runs/c", "--json", "-"}).json().at("val_accuracy") == 1.0);
  }
  write_file(folder / "numbers.csv", "text,label\ngood film,1\nbad film,0\n");
  fs::copy_file(folder / "numbers.csv", folder / "dev.csv", fs::copy_options::overwrite_existing);
  fs::copy_file(folder / "numbers.csv", folder / "train.csv", fs::copy_options::overwrite_existing);
  const nlohmann::json by_place = eval("train.csv").json();
  CHECK(by_place.at("val_accuracy") == 1.0);
  CHECK(by_place.at("notes").size() == 1);
  CHECK(by_place.dump().find("\"pos\"") != std::string::npos);  // the model's names are the names

  const std::string others = "text,label\ngood film,happy\nbad film,sad\ngood,happy\nbad,sad\n";
  write_file(folder / "train.csv", others);
  write_file(folder / "dev.csv", others);
  check_refused(folder, {"eval", "out", "data={name: text, path: train.csv, max_length: 16}"}, {"happy", "pos"});
  check_refused(folder, {"eval", "runs/c"}, {"happy", "pos"});
  check_refused(folder, {"eval", "out"}, {"data.path"});
  const CommandResult anew =
      run_command(folder, {"train", "model.from=out", "data={name: text, path: train.csv, max_length: 16}",
                           "train.batch_size=2", "train.threads=1", "train.epochs=1", "output.dir=anew"});
  REQUIRE(anew.code == 0);
  check_says(anew.out + anew.error, "anew");
}

TEST_CASE("text: whole numbers are numbers to a task that predicts them") {
  const TextFolder folder;
  for (const char* const file : {"train.csv", "dev.csv"}) write_file(folder / file, "text,score\ngood film,5\nbad,1\n");
  run(folder, train({"task.name=regression", "train.epochs=1", "train.batch_size=2"}));
  check_says(run(folder, {"predict", "runs/c", "good film"}).out, "value");
}

TEST_CASE("text: a folder of one output is judged by numbers, which need not be written with a point") {
  const TextFolder folder;
  for (const char* const file : {"train.csv", "dev.csv"})
    write_file(folder / file, "text,score\ngood film,1.5\nbad,0.5\ngood,1.5\nbad film,0.5\n");
  run(folder, train({"train.epochs=1", "task.name=regression"}));
  run(folder, {"export", "runs/c", "out"});
  nlohmann::json config = read_json(folder / "out/config.json");
  config.erase("problem_type");
  write_file(folder / "out/config.json", config.dump());
  for (const char* const rows : {"text,score\ngood film,1.5\nbad,0.5\n", "text,score\ngood film,1\nbad,0\n"}) {
    write_file(folder / "scores.csv", rows);
    CHECK(run(folder, {"eval", "out", "data={name: text, path: scores.csv, max_length: 16}", "--json", "-"})
              .json()
              .contains("val_mse"));
  }
  CHECK(run(folder, {"predict", "out", "good film"}).json().contains("value"));
}

TEST_CASE("text: eval takes its settings from the command line, and an adapter's own base") {
  const TextFolder folder;
  test::run(folder, train({"output.dir=base"}));
  test::run(folder, {"export", "base", "base-folder"});
  CHECK(run(folder,
            {"eval", "model.from=base-folder", "data={name: text, path: train.csv, max_length: 16}", "--json", "-"})
            .json()
            .at("val_accuracy") == 1.0);
  std::string rows = "text,label\n";
  for (int i = 0; i < 10; ++i) rows += "good film,pos\nbad,neg\n";
  write_file(folder / "all.csv", rows);
  for (const char* const model : {"base-folder", "model.from=base-folder"})  // which hold nothing out
    CHECK(run(folder, {"eval", model, "data={name: text, path: all.csv, max_length: 16}", "--json", "-"})
              .json()
              .at("samples") == 20);
  test::run(folder, train({"model.from=base-folder", "adapter={name: lora, rank: 2}", "train.epochs=1"}));
  test::run(folder, {"eval", "runs/c"});
  // PEFT writes no config.json: its base says what the model is.
  test::run(folder, {"export", "runs/c", "peft", "--adapter"});
  CHECK(read_json(folder / "peft/adapter_config.json").at("task_type") == "SEQ_CLS");
  const auto share = [&](const char* from) {
    return nlohmann::json::parse(run(folder, {"predict", from, "good film"}).out).at("probabilities").at("pos");
  };
  CHECK(share("peft").get<double>() == doctest::Approx(share("runs/c").get<double>()));
  test::run(folder, {"export", "peft", "merged"});
  CHECK(share("merged").get<double>() == doctest::Approx(share("runs/c").get<double>()));
  test::run(folder, train({"output.dir=other", "train.epochs=1", "train.seed=7"}));
  fs::copy_file(fs::canonical(folder / "other/last") / "model.safetensors", folder / "base-folder/model.safetensors",
                fs::copy_options::overwrite_existing);
  check_refused(folder, {"eval", "runs/c"}, {"base-folder"});
}

TEST_CASE("text: predict reads tables, and takes no file for a text") {
  const TextFolder folder;
  test::run(folder, train({}));
  check_refused(folder, {"predict", "runs/c", "dev.csv"}, {"--input"});
  write_file(folder / "in.csv", "id,review\n7,good film\n8,\"bad, a film\"\n");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--column", "review"}}) {
    std::vector<std::string> words{"predict", "runs/c", "--input", "in.csv"};
    words.insert(words.end(), more.begin(), more.end());
    std::istringstream lines(run(folder, words).out);
    std::string line;
    for (const auto& [id, label] : {std::pair{"7", "pos"}, {"8", "neg"}}) {
      std::getline(lines, line);
      const nlohmann::json json = nlohmann::json::parse(line);
      CHECK(json.at("row").at("id") == id);
      CHECK(json.at("label") == label);
    }
  }
  check_refused(folder, {"predict", "runs/c", "--input", "in.csv", "--column", "words"}, {"review"});
  write_file(folder / "no-header.csv", "7,good film\n8,bad film\n");
  CHECK(rows_of(run(folder, {"predict", "runs/c", "--input", "no-header.csv", "--column", "2"})).size() == 2);
  check_refused(folder, {"predict", "runs/c", "--column", "review", "good"}, {"--input"});
}

TEST_CASE("text: predict judges the columns of texts alone, and keeps each row as it is") {
  const TextFolder folder;
  std::string rows = "id,words,label\n";
  for (int i = 0; i < 12; ++i) rows += fmt::format("{0},{1},{1}\n", i, i % 2 == 0 ? "good" : "bad");
  write_file(folder / "train.csv", rows);
  write_file(folder / "dev.csv", rows);
  run(folder, train({"data.text=words", "train.epochs=1"}));
  const std::string kept = R"({"n":1, "f":0.50,"words":"good film","b":true,"z":null,"o":{"y":[1, 2]}})";
  write_file(folder / "in.jsonl", kept + "\n\n{\"words\": \"bad\"}\n{\"words\": null}\n{}\nnone\n{\"words\": \"\"}\n");
  const CommandResult result = run_command(folder, {"predict", "runs/c", "--input", "in.jsonl"});
  CHECK(result.code == 2);
  for (const char* const place : {"in.jsonl:4", "in.jsonl:5", "in.jsonl:6", "in.jsonl:7"})
    check_says(result.error, place);
  CHECK(std::ranges::count(result.out, '\n') == 2);
  check_says(result.out, "\"row\":" + kept + ",");
  write_file(folder / "in.csv", "id,words\n1,good\n\n2,bad,film\n3\n4,bad\n");
  const CommandResult table = run_command(folder, {"predict", "runs/c", "--input", "in.csv"});
  CHECK(table.code == 2);
  check_says(table.error, "in.csv:4");
  check_says(table.error, "in.csv:5");
  CHECK(std::ranges::count(table.out, '\n') == 2);
}

TEST_CASE("text: predict finds the pairs that a run learned, and joins no texts") {
  const TextFolder folder;
  std::string rows = "sentence1,sentence2,label\n";
  for (int i = 0; i < 12; ++i) rows += fmt::format("{0} film,a film,{0}\n", i % 2 == 0 ? "good" : "bad");
  write_file(folder / "train.csv", rows);
  write_file(folder / "dev.csv", rows);
  run(folder, train({"train.epochs=1"}));
  run(folder, {"export", "runs/c", "out"});
  for (const char* const from : {"runs/c", "out"}) {
    CHECK(rows_of(run(folder, {"predict", from, "--input", "dev.csv"})).front().at("pair") == "a film");
    check_says(run(folder, {"predict", from, "good film"}).error, "pairs");
  }
  write_file(folder / "in.jsonl", R"({"a": "good\tfilm", "b": "bad a"})"
                                  "\n"
                                  R"({"a": "good", "b": "film bad a"})"
                                  "\n");
  const std::vector<nlohmann::json> predicted =
      rows_of(run(folder, {"predict", "runs/c", "--input", "in.jsonl", "--column", "a", "--column", "b"}));
  REQUIRE(predicted.size() == 2);
  CHECK(predicted[0].at("text") == "good\tfilm");
  CHECK(predicted[0].at("probabilities") != predicted[1].at("probabilities"));
}

TEST_CASE("text: sentence embeddings keep how they pool") {
  const TextFolder folder(", separate: true");
  std::string rows = "text,pair,label\n";
  for (int i = 0; i < 8; ++i) rows += i % 2 == 0 ? "good film,a good film,1.5\n" : "bad,a film,0.25\n";
  write_file(folder / "train.csv", rows);
  write_file(folder / "dev.csv", rows);
  const CommandResult trained = run_command(
      folder, train({"task.name=contrastive", "model.head=embedding", "model.pooling=first", "train.epochs=1"}));
  INFO(trained.error);
  REQUIRE(trained.code == 0);
  test::run(folder, {"export", "runs/c", "out"});
  const nlohmann::json pooling = read_json(folder / "out/1_Pooling/config.json");
  CHECK(pooling.at("pooling_mode_cls_token") == true);
  CHECK(pooling.at("pooling_mode_mean_tokens") == false);
  CHECK(read_json(folder / "out/modules.json").size() == 2);
  const CommandResult first = test::run(folder, {"predict", "out", "good film"});
  CHECK(nlohmann::json::parse(first.out).at("embedding").size() == 16);
  CHECK(first.out == run_command(folder, {"predict", "runs/c/last", "good film"}).out);
  write_file(folder / "out/1_Pooling/config.json", "{\"pooling_mode_mean_tokens\": true}");
  CHECK(run_command(folder, {"predict", "out", "good film"}).out != first.out);
}

TEST_CASE("text: a tag for each token, evaluated by class, and predicted with the tokens' texts") {
  const TextFolder folder;
  std::string rows;
  for (int i = 0; i < 12; ++i)
    rows +=
        "{\"tokens\": [\"good\", \"film\"], \"tags\": [\"B\", \"O\"]}\n"
        "{\"tokens\": [\"bad\", \"a\", \"film\"], \"tags\": [\"O\", \"O\", \"O\"]}\n";
  for (const char* const file : {"train.jsonl", "dev.jsonl"}) write_file(folder / file, rows);
  run(folder, train({"data={name: tagged_text, path: ., tokenizer: vocab.txt, max_length: 16}",
                     "task.name=token_classification"}));
  const nlohmann::json labels = run(folder, {"eval", "runs/c", "--json", "-"}).json().at("labels");
  CHECK(labels.at("micro_f1") == 1.0);
  CHECK(labels.at("per_class").at(0) ==
        nlohmann::json{{"class", "B"}, {"samples", 12}, {"precision", 1.0}, {"recall", 1.0}, {"f1", 1.0}});
  const nlohmann::json predicted = run(folder, {"predict", "runs/c", "Good film"}).json();
  CHECK(predicted.at("tokens") == nlohmann::json{"Good", "film"});
  CHECK(predicted.at("labels") == nlohmann::json{"B", "O"});
  CHECK(predicted.at("probabilities").size() == 2);
}

TEST_CASE("text: an answer is predicted as text of the passage") {
  const TextFolder folder;
  nlohmann::json paragraphs;
  for (int i = 0; i < 24; ++i) {
    const std::string word = i % 2 == 0 ? "good" : "bad";
    const nlohmann::json answer{{"text", word}, {"answer_start", 2}};
    const nlohmann::json question{{"id", std::to_string(i)}, {"question", "film"}, {"answers", {answer}}};
    paragraphs.push_back({{"context", "a " + word + " film"}, {"qas", {question}}});
  }
  const nlohmann::json file{{"version", "1.1"}, {"data", {{{"title", "t"}, {"paragraphs", paragraphs}}}}};
  for (const char* const name : {"train.json", "dev.json"}) write_file(folder / name, file.dump());
  run(folder, train({"data={name: squad, path: ., tokenizer: vocab.txt, max_length: 16, stride: 2}",
                     "task.name=question_answering"}));
  run(folder, {"export", "runs/c", "out"});
  for (const char* const from : {"runs/c", "out"})
    CHECK(run(folder, {"predict", from, "--pairs", "film\ta bad film"}).json().at("answer") == "bad");
  CHECK(run_command(folder, {"predict", "runs/c", "--pairs", "no tab"}).code == 2);
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
  check_refusals(folder, train({}),
                 {{"model.vocab_size=8", "vocab_size"},
                  {"data.max_length=64", "max_position_embeddings"},
                  {"data.label=lable", "lable"},
                  {"data.validation=nowhere.csv", "nowhere.csv"},
                  {"task.name=regression", "labels f32"}});
  write_file(folder / "dev.csv", "text,label\ngood film,pos\nbad,other\n");
  check_refusals(folder, train({}), {{"", "dev.csv:3"}});
}

TEST_CASE("text: masked language modelling takes the mask from the tokenizer, and refuses one without") {
  const TextFolder folder;
  std::string lines;
  for (int i = 0; i < 24; ++i) lines += "good a film\n";
  write_file(folder / "lines.txt", lines);
  write_file(folder / "dev.txt", lines);
  const std::vector<std::string> of_lines{
      "data={name: plain_text, path: lines.txt, validation: dev.txt, tokenizer: vocab.txt, max_length: 16}",
      "task.name=masked_lm",
      "model.head=masked_lm",
      "train.epochs=4",
      "--json",
      "-"};
  const CommandResult result = test::run(folder, train(of_lines));
  CHECK(result.json().at("val_perplexity").get<double>() < 9);
  test::run(folder, {"export", "runs/c", "out"});
  for (const char* const from : {"runs/c", "out"}) {
    const nlohmann::json found = test::run(folder, {"predict", from, "good [MASK] [MASK]"}).json();
    REQUIRE(found.at("words").size() == 2);
    CHECK(found.at("words")[0][0] == "a");
    CHECK(found.at("words")[1].size() == 5);
    CHECK(found.at("probabilities")[1][0] >= found.at("probabilities")[1][1]);
    CHECK(test::run(folder, {"predict", from, "good"}).json().at("words").empty());
  }
  write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n<mask>\ngood\nbad\na\nfilm\n");
  std::vector<std::string> again = of_lines;
  again.emplace_back("output.dir=again");
  check_refused(folder, train(again), {"task.mask_id"});
  CHECK(!std::filesystem::exists(folder / "again"));
  write_file(folder / "tokenizer_config.json", "{\"mask_token\": \"<mask>\"}");
  CHECK(run_command(folder, train(again)).code == 0);
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
