// Own pictures, from the folder to the prediction.
#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <sstream>

using namespace lacuna::test;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view configuration =
    "model: {name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 1, num_heads: 2}\n"
    "data: {path: pictures}\n"
    "train: {epochs: 8, batch_size: 8, threads: 1}\n"
    "optimizer: {lr: 0.01}\n"
    "output: {dir: r}\n";

/// A picture of one colour.
void write_picture(const fs::path& path, int red, int green) {
  fs::create_directories(path.parent_path());
  std::string text = "P6 10 9 255\n";
  for (int i = 0; i < 90; ++i) text += {static_cast<char>(red), static_cast<char>(green), static_cast<char>(7)};
  write_file(path, text);
}

void write_pictures(const fs::path& folder) {
  for (int i = 0; i < 12; ++i) {
    write_picture(folder / "red" / (std::to_string(i) + ".ppm"), 200 + i, i);
    write_picture(folder / "green" / (std::to_string(i) + ".PPM"), i, 200 + i);
  }
}

}  // namespace

TEST_CASE("pictures: a path alone is trained on, evaluated by class, resumed and predicted with") {
  const TemporaryFolder folder;
  write_pictures(folder / "pictures");
  write_file(folder / "c.yaml", configuration);
  const CommandResult trained = run(folder, {"train", "-c", "c.yaml"});
  lacuna::test::check_says(trained.out, "imagefolder");
  lacuna::test::check_says(read_file(folder / "r/config.yaml"), "name: imagefolder");
  CHECK(read_json(folder / "r/last/config.json").at("label_names") == nlohmann::json{"green", "red"});

  const nlohmann::json evaluated = run(folder, {"eval", "r", "--json", "-"}).json().at("classes");
  CHECK(evaluated.at("top1") == 1.0);
  CHECK(evaluated.at("confusion").at(0).at(1) == 0);
  CHECK(evaluated.at("confusion").at(1).at(0) == 0);
  CHECK(evaluated.at("per_class").at(1).at("class") == "red");
  CHECK(evaluated.at("per_class").at(1).at("precision") == 1.0);
  CHECK(evaluated.at("worst").empty());

  // A table of the same pictures is another kind of data set.
  std::string rows = "image,label\n";
  for (int i = 0; i < 12; ++i) rows += fmt::format("pictures/red/{0}.ppm,red\npictures/green/{0}.PPM,green\n", i);
  write_file(folder / "table.csv", rows);
  CHECK(run(folder, {"eval", "r", "data=table.csv", "--json", "-"}).json().at("val_accuracy") == 1.0);
  run(folder, {"train", "-c", "c.yaml", "data=table.csv", "output.dir=of_table", "train.epochs=1"});
  run(folder, {"eval", "of_table", "data=pictures"});
  write_file(folder / "list.csv", rows + "pictures/none.ppm,red\n");
  const CommandResult listed = run_command(folder, {"predict", "r", "--input", "list.csv"});
  CHECK(listed.code == 2);
  lacuna::test::check_says(listed.error, "none.ppm");
  CHECK(std::ranges::count(listed.out, '\n') == 24);
  const nlohmann::json first_row = nlohmann::json::parse(listed.out.substr(0, listed.out.find('\n')));
  CHECK(first_row.at("label") == "red");
  CHECK(first_row.at("row").at("label") == "red");
  // Its words are no inputs of a model of pictures.
  write_file(folder / "texts.csv", "text,label\na b,red\nc,green\n");
  check_refused(folder, {"train", "model=vit_cifar", "data=texts.csv"}, {"data.name=image_table"});
  // A path that is gone is named.
  fs::rename(folder / "pictures", folder / "moved");
  check_refused(folder, {"eval", "r"}, {"pictures does not exist", "data.path"});
  fs::rename(folder / "moved", folder / "pictures");

  // Data whose classes have other names is refused, though there are as many.
  write_pictures(folder / "others");
  fs::rename(folder / "others/red", folder / "others/blue");
  CHECK(run_command(folder, {"eval", "r", "data.path=others"}).code == 2);

  // Prediction needs no training data; a class that came since is told on resume.
  const CommandResult resumed = run(folder, {"train", "--resume", "r", "train.epochs=9"});
  write_picture(folder / "pictures/blue/1.ppm", 0, 0);
  write_picture(folder / "pictures/blue/2.ppm", 0, 0);
  CHECK(run_command(folder, {"train", "--resume", "r", "train.epochs=10"}).code == 2);
  fs::remove_all(folder / "pictures");
  write_picture(folder / "new/a.ppm", 210, 3);
  write_picture(folder / "b.ppm", 3, 210);
  for (const char* const from : {"r", "r/last", "r/last/"}) {
    const std::string lines = run(folder, {"predict", from, "new", "b.ppm", "--json", "--top", "1"}).out;
    const std::size_t end = lines.find('\n');
    const nlohmann::json first = nlohmann::json::parse(lines.substr(0, end)),
                         second = nlohmann::json::parse(lines.substr(end + 1));
    CHECK(first.at("label") == "red");
    CHECK(first.at("image") == "new/a.ppm");
    CHECK(first.at("top").size() == 1);
    CHECK(second.at("label") == "green");
  }
  run(folder, {"export", "r", "timm"});
  CHECK(run(folder, {"predict", "timm", "b.ppm"}).out.starts_with("b.ppm: green"));

  write_file(folder / "broken.ppm", "P6 10 9 255\nshort");
  const CommandResult some = run_command(folder, {"predict", "r", "broken.ppm", "b.ppm"});
  CHECK(some.code == 2);
  CHECK(some.out.starts_with("b.ppm: green"));
  lacuna::test::check_says(some.error, "broken.ppm: ");
  CHECK(run_command(folder, {"predict", "r", "absent.ppm"}).code == 2);
  CHECK(run_command(folder, {"predict", "r"}).code == 2);
}

TEST_CASE("pictures: the held-out part stays the same, and a run reports changes") {
  const TemporaryFolder folder;
  write_pictures(folder / "pictures");
  write_file(folder / "c.yaml", configuration);
  run(folder, {"train", "-c", "c.yaml", "train.epochs=1"});
  const nlohmann::json record = read_json(folder / "r/held_out.json");
  const std::set<std::string> held = record.at("names");
  CHECK(!held.empty());
  CHECK(record.at("trained_on") == 24 - held.size());
  const auto evaluate = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"eval", "r"});
    words.insert(words.end(), {"--json", "-"});
    return run(folder, words);
  };
  const CommandResult before = evaluate({});
  CHECK(before.error.empty());
  CHECK(before.json().at("samples") == held.size());
  CHECK(read_json(folder / "r/classes.json").at("samples") == held.size());
  // The same files at another place; others are evaluated whole.
  fs::copy(folder / "pictures", folder / "moved", fs::copy_options::recursive);
  const CommandResult moved = evaluate({"data.path=moved"});
  CHECK(moved.json().at("samples") == held.size());
  lacuna::test::check_says(moved.error, "of 24");
  // A copy with one more or fewer is still the run's data.
  write_picture(folder / "moved/red/new.ppm", 200, 1);
  const CommandResult grown = evaluate({"data.path=moved"});
  CHECK(grown.json().at("samples").get<std::size_t>() <= held.size() + 1);
  lacuna::test::check_says(grown.error, "of 25");
  fs::remove(folder / "moved/red/new.ppm");
  for (const fs::directory_entry& file : fs::directory_iterator(folder / "moved/red"))
    if (!held.contains("red/" + file.path().filename().string())) {
      fs::remove(file);
      break;
    }
  CHECK(evaluate({"data.path=moved"}).json().at("samples") == held.size());
  // One that is relabelled stays held out, also where its class has no other.
  fs::copy(folder / "pictures", folder / "relabelled", fs::copy_options::recursive);
  const fs::path one = *held.begin();
  const std::string other = one.parent_path() == "red" ? "green" : "red", name = one.filename().string();
  fs::rename(folder / "relabelled" / one, folder / "relabelled" / other / ("x" + name));
  CHECK(evaluate({"data.path=relabelled"}).json().at("samples") == held.size() - 1);
  fs::remove(folder / "relabelled" / other / name);
  fs::rename(folder / "relabelled" / other / ("x" + name), folder / "relabelled" / other / name);
  const CommandResult relabelled = evaluate({"data.path=relabelled"});
  lacuna::test::check_says(relabelled.error, "another folder");
  CHECK(relabelled.error.find("no longer") == std::string::npos);
  // Other files are evaluated whole.
  for (const char* const label : {"red", "green"})
    for (int i = 50; i < 54; ++i) write_picture(folder / "others" / label / fmt::format("{}.ppm", i), 200, i);
  const CommandResult others = evaluate({"data.path=others"});
  CHECK(others.json().at("samples") == 8);
  lacuna::test::check_says(others.error, "all 8");
  // A new picture is trained on or held out, and all others stay.
  for (int i = 100; i < 130; ++i) write_picture(folder / "pictures/red" / (std::to_string(i) + ".ppm"), 200, i);
  const CommandResult after = evaluate({});
  lacuna::test::check_says(after.error, "more to train on");
  CHECK(after.error.find("no longer held out") == std::string::npos);
  CHECK(after.json().at("samples") >= held.size());
  CHECK(run_command(folder, {"train", "--resume", "r", "train.epochs=2"}).error.find("more to train on") !=
        std::string::npos);
  // A run that recorded nothing drew them by place: as many of each class.
  fs::remove(folder / "r/held_out.json");
  for (int i = 100; i < 130; ++i) fs::remove(folder / "pictures/red" / (std::to_string(i) + ".ppm"));
  CHECK(evaluate({}).json().at("samples") == 2);
}

TEST_CASE("pictures: grey ones, of 16 bits, into a model that is not square") {
  const TemporaryFolder folder;
  for (int i = 0; i < 12; ++i)
    for (const bool bright : {false, true}) {
      std::string text = "P5 10 9 65535\n";
      for (int p = 0; p < 90; ++p) text += {static_cast<char>(bright ? 200 + i : 20 + i), static_cast<char>(p)};
      const fs::path file = folder / "pictures" / (bright ? "bright" : "dark") / (std::to_string(i) + ".pgm");
      fs::create_directories(file.parent_path());
      write_file(file, text);
    }
  write_file(folder / "c.yaml", configuration);
  run(folder, {"train", "-c", "c.yaml", "data.channels=1", "model.image_size=[8, 12]"});
  lacuna::test::check_says(read_file(folder / "r/config.yaml"), "in_channels: 1");
  CHECK(run(folder, {"eval", "r", "--json", "-"}).json().at("val_accuracy") == 1.0);
  CHECK(run(folder, {"predict", "r", "pictures/bright/3.pgm", "--json"}).json().at("label") == "bright");
  run(folder, {"export", "r", "timm"});
  CHECK(run(folder, {"predict", "timm", "pictures/dark/3.pgm", "--json"}).json().at("label") == "dark");
}

TEST_CASE("pictures: a checkpoint of adapters needs its base and no data") {
  const TemporaryFolder folder;
  write_pictures(folder / "pictures");
  write_file(folder / "c.yaml", configuration);
  run(folder, {"train", "-c", "c.yaml", "output.dir=base"});
  run(folder, {"train", "-c", "c.yaml", "model.from=base/last", "adapter={name: lora, rank: 2}", "train.epochs=1"});
  fs::rename(folder / "pictures/red/1.ppm", folder / "red.ppm");
  fs::remove_all(folder / "pictures");
  const CommandResult predicted = run(folder, {"predict", "r", "red.ppm", "--json"});
  CHECK(predicted.json().at("label") == "red");
  run(folder, {"export", "r", "merged"});
  CHECK(run(folder, {"predict", "merged", "red.ppm", "--json"}).json().at("probability").get<double>() ==
        doctest::Approx(predicted.json().at("probability").get<double>()));
  fs::remove_all(folder / "base");
  const CommandResult alone = run_command(folder, {"predict", "r", "red.ppm"});
  CHECK(alone.code == 2);
  lacuna::test::check_says(alone.error, (folder / "base/last").string());
}

TEST_CASE("pictures: a damaged one ends a run after a checkpoint, from which it goes on without it") {
  const TemporaryFolder folder;
  write_pictures(folder / "pictures/train");
  write_pictures(folder / "pictures/val");
  write_file(folder / "pictures/val/green/5.PPM", "P6 10 9 255\nshort");
  write_file(folder / "c.yaml", configuration);
  const CommandResult ended = run_command(folder, {"train", "-c", "c.yaml", "train.epochs=1"});
  CHECK(ended.code == 2);
  lacuna::test::check_says(ended.error, "data.broken=skip");
  REQUIRE(fs::is_regular_file(folder / "r/last/checkpoint.json"));
  const CommandResult resumed = run(folder, {"train", "--resume", "r", "data.broken=skip"});
  lacuna::test::check_says(resumed.out, "continuing after step 3");
  CHECK(read_json(folder / "r/summary.json").at("steps") == 3);
}

TEST_CASE("pictures: all on the command line, without a file; more outputs than classes are refused") {
  const TemporaryFolder folder;
  write_pictures(folder / "pictures");
  std::vector<std::string> words{
      "train", "model={name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 1, num_heads: 2}",
      "data.path=pictures", "train={epochs: 1, batch_size: 8, threads: 1}"};
  CHECK(run(folder, words).out.find("data.image_size") == std::string::npos);
  CHECK(fs::is_regular_file(folder / "runs/vit/config.yaml"));
  std::vector<std::string> far_larger = words;
  far_larger.insert(far_larger.end(), {"model.image_size=64", "schedule.warmup_epochs=1", "output=large"});
  const std::string told = run(folder, far_larger).out;
  lacuna::test::check_says(told, "model.image_size=32");
  lacuna::test::check_says(told, "schedule.warmup_epochs");
  far_larger.insert(far_larger.end(), {"model.image_size=32", "--overwrite"});
  CHECK(run(folder, far_larger).out.find("image_size=") == std::string::npos);
  // Multiples of 32 below 96 are none of a patch's side.
  std::vector<std::string> of_data{"train",
                                   "model={name: vit, patch_size: 24, embed_dim: 8, depth: 1, num_heads: 2}",
                                   "data={path: pictures, image_size: 192}",
                                   "train={epochs: 1, batch_size: 8, threads: 1}",
                                   "output=large",
                                   "--overwrite"};
  lacuna::test::check_says(run(folder, of_data).out, "data.image_size=96");
  of_data.emplace_back("data.image_size=96");
  run(folder, of_data);
  words.emplace_back("model.num_classes=7");
  const CommandResult more = run_command(folder, words);
  CHECK(more.code == 2);
  lacuna::test::check_says(more.error, "model.num_classes");
  CHECK(run_command(folder, {"predict", "runs/none", "x.ppm"}).code == 2);
  CHECK(run_command(folder, {"export", "runs/none", "out"}).code == 2);
}

TEST_CASE("pictures: a table with several labels an image, predicted without it") {
  const TemporaryFolder folder;
  write_pictures(folder / "all");
  std::string table = "file_name,tags\n";
  for (int i = 0; i < 12; ++i)
    table += "red/" + std::to_string(i) + ".ppm,red warm\ngreen/" + std::to_string(i) + ".PPM,green\n";
  write_file(folder / "all/train.csv", table);
  write_file(
      folder / "c.yaml",
      std::string(configuration).replace(configuration.find("path: pictures"), 14, "path: all, separator: \" \"") +
          "task: {name: multi_label}\n");
  run(folder, {"train", "-c", "c.yaml"});
  const nlohmann::json labels = run(folder, {"eval", "r", "--json", "-"}).json().at("labels");
  CHECK(labels.at("micro_f1") ==
        read_json(folder / "r/last/checkpoint.json").at("progress").at("best").at("metrics").at("f1"));
  CHECK(labels.at("per_class").size() == 3);
  fs::rename(folder / "all/red/1.ppm", folder / "1.ppm");
  fs::remove_all(folder / "all");
  const nlohmann::json said = run(folder, {"predict", "r", "1.ppm", "--json"}).json();
  CHECK(said.at("top").size() == 3);
  CHECK(said.at("label") != "green");
}

TEST_CASE("pictures: what cannot be trained on is refused with one message") {
  const TemporaryFolder folder(configuration);
  const auto code = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train", "-c", "c.yaml", "--overwrite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(folder, arguments).code;
  };
  CHECK(code({}) == 2);  // no such path
  write_pictures(folder / "pictures");
  CHECK(code({"data.name=shapes"}) == 2);  // it reads no path
  write_file(folder / "pictures/red/0.ppm", "no picture");
  CHECK(code({}) == 2);
  fs::create_directories(folder / "pictures/empty");
  CHECK(code({}) == 2);
  write_file(folder / "cut.tar", "");
  CHECK(code({"data.path=cut.tar"}) == 2);
}

TEST_CASE(
    "pictures: data.broken: skip names the pictures that take damaged ones' places, and resumes to the same bits") {
  const TemporaryFolder folder;
  write_pictures(folder / "pictures/train");
  write_pictures(folder / "pictures/val");
  const std::string broken = (folder / "pictures/train/red/3.ppm").string();
  write_file(broken, "P6 10 9 255\nshort");
  write_file(folder / "pictures/val/green/5.PPM", "GIF89a");
  write_file(folder / "c.yaml", configuration);
  CHECK(run_command(folder, {"train", "-c", "c.yaml", "output.dir=e"}).code == 2);

  const std::vector<std::string> skip{"train", "-c", "c.yaml", "data.broken=skip", "train.epochs=3"};
  const CommandResult whole = run(folder, skip);
  lacuna::test::check_says(whole.error, broken);
  const nlohmann::json summary = read_json(folder / "r/summary.json");
  CHECK(summary.at("damaged_files") == 2);
  std::size_t replaced = 0, evaluations = 0;
  std::istringstream lines(read_file(folder / "r/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    for (const nlohmann::json& one : json.value("replaced", nlohmann::json::array())) {
      ++replaced;
      CHECK(one.at("file") == broken);
      lacuna::test::check_says(one.at("instead").get<std::string>(), "train/red/");
    }
    if (!json.contains("val_loss")) continue;
    ++evaluations;
    REQUIRE(json.at("val_left_out").size() == 1);
    CHECK(!json.at("val_left_out").at(0).contains("instead"));
  }
  CHECK(replaced == 3);
  CHECK(evaluations == 3);
  const nlohmann::json evaluated = run(folder, {"eval", "r", "--json", "-"}).json();
  CHECK(evaluated.at("samples") == 23);
  CHECK(evaluated.at("left_out").at(0).at("file").get<std::string>().ends_with("val/green/5.PPM"));

  std::vector<std::string> parts = skip;
  parts.insert(parts.end(), {"train.steps=4", "output.dir=s", "data.workers=3"});
  run(folder, parts);
  run(folder, {"train", "--resume", "s", "train.steps=0"});
  CHECK(read_file(folder / "s/last/model.safetensors") == read_file(folder / "r/last/model.safetensors"));
  CHECK(read_json(folder / "s/summary.json").at("damaged_files") == 2);

  for (int i = 0; i < 12; ++i) write_file(folder / "pictures/train/red" / (std::to_string(i) + ".ppm"), "P6");
  CHECK(run_command(folder, {"train", "-c", "c.yaml", "data.broken=skip", "output.dir=t"}).code == 2);
}
