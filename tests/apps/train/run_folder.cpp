// Run folders under failures: a full disk, damaged checkpoints, a second process.
#include "models/io/safetensors.h"
#include "tests/apps/train/train_run.h"

#include <fmt/core.h>

#include <limits>

namespace lacuna::test {

TEST_CASE("train: a full disk leaves the older checkpoint whole") {
  const TrainedFolder folder;
  const CommandResult full = run_command(folder, {"train", "--resume", "r", "train.steps=3"}, {.file = 4096});
  CHECK(full.code == 2);
  check_says(full.error, "cannot write");
  CHECK(fs::read_symlink(folder / "r/last") == "checkpoints/step-00000002");
  CHECK(std::distance(fs::directory_iterator(folder / "r/checkpoints"), {}) == 1);
  CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=3"}).code == 0);
}

TEST_CASE("command: a folder that holds no run is told for what it is") {
  const TrainedFolder folder;
  fs::create_directories(folder / "checkpoints");
  write_file(folder / "notes.txt", "no run");
  for (const std::string command : {"plan", "train"}) {
    write_file(folder / "s.yaml", fmt::format("command: {0}\nconfig: c.yaml\noverrides: {{train.steps: 1}}\n"
                                              "output: {{dir: {0}}}\n",
                                              command));
    test::run(folder, {"sweep", "-c", "s.yaml"});
  }
  check_refusals(folder, {},
                 {{"eval\nr/checkpoints", "r/checkpoints", "the run, r,|r/last"},
                  {"eval\nr/checkpoints/", "r/checkpoints", "the run, r,|r/last"},
                  {"train\n--resume\nr/checkpoints", "r/checkpoints", "r/last"},
                  {"eval\ncheckpoints", "checkpoints", "config.yaml"},
                  {"eval\nnotes.txt", "notes.txt", "folder"},
                  {"sweep\n-c\nc.yaml", "c.yaml", "not a sweep|`lacuna train -c c.yaml`"},
                  {"report\nplan", "plan/sweep.html", "sweep"},
                  {"report\ntrain/", "train/sweep.html", "train/runs"}});
}

TEST_CASE("train: a checkpoint that is damaged is named, and the one before it offered") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=whole"}));
  test::run(folder, train({"output.dir=r", "output.save_every_steps=1"}));
  const auto flip_last_byte = [&](const fs::path& file) {
    std::string content = read_file(file);
    content.back() = static_cast<char>(content.back() ^ 1);
    write_file(file, content);
  };
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "checkpoint.json"}) {
    const std::string last = "r/" + fs::read_symlink(folder / "r/last").string();
    if (name == "checkpoint.json")
      fs::remove(folder / last / name);
    else
      flip_last_byte(folder / last / name);
    const CommandResult result = run_command(folder, {"train", "--resume", "r"});
    INFO(result.error);
    CHECK(result.code == 2);
    check_says(result.error, last);
    check_says(result.error, name);
    CHECK(fs::exists(folder / last));
    const std::string option = "go on from there with --resume ";
    const std::size_t offer = result.error.find(option);
    REQUIRE(offer != std::string::npos);
    const std::string older = result.error.substr(offer + option.size(), std::string("r/checkpoints/step-").size() + 8);
    CHECK(older < last);
    CHECK(run_command(folder, {"train", "--resume", older}).code == 0);
    CHECK(read_file(folder / "r/last/model.safetensors") == read_file(folder / "whole/last/model.safetensors"));
  }
  for (const fs::directory_entry& checkpoint : fs::directory_iterator(folder / "r/checkpoints"))
    flip_last_byte(checkpoint.path() / "model.safetensors");
  check_refusals(folder, {"train", "--resume"}, {{"r", "No checkpoint", "whole"}});
}

TEST_CASE("train: a checkpoint of another model or another version is refused") {
  const TrainedFolder folder;
  const CommandResult other = run_command(folder, {"train", "--resume", "r", "model.embed_dim=16"});
  INFO(other.error);
  CHECK(other.code == 2);
  check_says(other.error, "r/checkpoints/step-00000002");
  CHECK(other.error.find("[8, 4, 4, 3]") == std::string::npos);
  CHECK(other.error.find("The checkpoint before it") == std::string::npos);
  const fs::path manifest = folder / "r/last/checkpoint.json";
  nlohmann::json json = read_json(manifest);
  json["format"] = 0;
  write_file(manifest, json.dump());
  const CommandResult older = run_command(folder, {"train", "--resume", "r"});
  CHECK(older.code == 2);
  check_says(older.error, "format 0");
  CHECK(older.error.find("before it") == std::string::npos);  // nothing is damaged
  check_says(older.error, "model.from=r/checkpoints/step-00000002");
}

TEST_CASE("eval: weights beside a config.json with other statistics are warned of") {
  const TrainedFolder folder;
  fs::create_directories(folder / "weights");
  fs::copy_file(folder / "r/last/model.safetensors", folder / "weights/model.safetensors");
  const std::string from = "model.from=weights/model.safetensors", same = "data.mean=[0.5, 0.5, 0.5]",
                    same_deviation = "data.std=[0.5, 0.5, 0.5]";
  const auto warned = [&](const std::vector<std::string>& rest) {
    std::vector<std::string> words{"eval", "-c", "c.yaml", from};
    words.insert(words.end(), rest.begin(), rest.end());
    const CommandResult result = run_command(folder, words);
    CHECK(result.code == 0);
    return result.error.find("data.mean=[0.5, 0.5, 0.5]") != std::string::npos;
  };
  CHECK(!warned({}));
  write_file(folder / "weights/config.json", R"({"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]})");
  CHECK(warned({}));
  CHECK(!warned({same, same_deviation}));
  check_says(run_command(folder, train({from, "output.dir=f", "train.steps=1"})).error, "data.mean=[0.5");
}

TEST_CASE("train: what several files say is one configuration, and the run goes on without them") {
  const TemporaryFolder folder(vit);
  write_file(folder / "m.yaml", "memory: {policy: adaptive, bits: 2.5}\ntrain: {epochs: 1}\n");
  const std::vector<std::string> both{"-c", "c.yaml", "-c", "m.yaml"};
  const auto with_both = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, both.begin(), both.end());
    return run_command(folder, arguments);
  };
  const CommandResult begun = with_both({"train", "train.steps=2"});
  INFO(begun.error);
  REQUIRE(begun.code == 0);
  const std::string written = read_file(folder / "runs/c_m/config.yaml");
  check_says(written, "policy: adaptive");
  for (const char* const name : {"c.yaml", "m.yaml"}) fs::rename(folder / name, folder / (std::string("was.") + name));
  test::run(folder, {"train", "--resume", "runs/c_m", "train.steps=0"});
  const nlohmann::json summary = read_json(folder / "runs/c_m/summary.json");
  CHECK(summary.at("policy") == "adaptive");
  CHECK(summary.at("epochs") == 1);
  CHECK(summary.at("steps") == 4);
  for (const char* const name : {"c.yaml", "m.yaml"}) fs::rename(folder / (std::string("was.") + name), folder / name);
  for (const char* const command : {"plan", "explain"}) CHECK(with_both({command}).code == 0);
  CHECK(with_both({"bench", "--steps", "2", "--json", "-"}).json().at("policy") == "adaptive");
  CHECK(with_both({"eval", "model.from=runs/c_m/last"}).code == 0);
  const auto planned = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "plan");
    arguments.insert(arguments.end(), {"--json", "-"});
    return run_command(folder, arguments).json().at("policy");
  };
  CHECK(planned({"c.yaml", "m.yaml"}) == planned({"-c", "c.yaml", "-c", "m.yaml"}));
}

TEST_CASE("train: two processes do not train into one folder") {
  const TemporaryFolder folder(vit);
  const std::vector<std::string> endless = train({"output.dir=r", "train.epochs=1000000", "output.save_every_steps=1"});
  CommandRun first(folder, endless);
  while (first.running() && !fs::exists(folder / "r/last")) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const std::string holder = "process " + std::to_string(first.process()) + " trains into it";
  for (const std::vector<std::string>& second :
       {endless, train({"output.dir=r", "--overwrite"}), {"train", "--resume", "r"}}) {
    check_refused(folder, second, {holder});
  }
  CHECK(first.running());
  CHECK(run_command(folder, {"eval", "r"}).code == 0);  // reading is free
  first.signal(SIGKILL);
  first.wait();
  CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=1"}).code == 0);
}

TEST_CASE("train: a folder that cannot be written is refused and left as it is") {
  const TrainedFolder folder;
  write_file(folder / "file", "mine");
  check_refusals(folder, train({}), {{"output.dir=file/r", "file/r", "create"}});

  // Root may write anywhere: the run is another user's.
  const bool is_root = ::geteuid() == 0;
  const auto as_user = [&](std::vector<std::string> arguments) {
    if (!is_root) return run_command(folder, std::move(arguments));
    arguments.insert(arguments.begin(), {"--reuid=65534", "--clear-groups", LACUNA_BINARY_DIR "/bin/lacuna"});
    return run_program(folder, "/usr/bin/setpriv", std::move(arguments));
  };
  fs::permissions(folder.path(), fs::perms(0755));
  for (const char* const path : {"r", "r/checkpoints"}) fs::permissions(folder / path, fs::perms(0555));
  const CommandResult refused = as_user({"train", "--resume", "r", "train.steps=3"});
  INFO(refused.error);
  CHECK(refused.code == 2);
  check_says(refused.error, "cannot write into r: ");
  CHECK(fs::read_symlink(folder / "r/last") == "checkpoints/step-00000002");

  // The folder of the checkpoints alone: found when the first one is to be written.
  fs::permissions(folder / "r", fs::perms(0777));
  for (const fs::directory_entry& file : fs::directory_iterator(folder / "r"))
    if (file.is_regular_file()) fs::permissions(file, fs::perms(0666));
  const CommandResult unsaved = as_user({"train", "--resume", "r", "train.steps=3"});
  INFO(unsaved.error);
  CHECK(unsaved.code == 2);
  check_says(unsaved.error, "cannot create r/checkpoints/step-00000003: Permission denied");
  for (const char* const path : {"r", "r/checkpoints"}) fs::permissions(folder / path, fs::perms(0755));
  CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=3"}).code == 0);
}

namespace {

/// As `scp -r`, `zip -r` and file systems without links leave a run: copies in the place of links, or nothing there.
void copy_run(const TemporaryFolder& folder, const fs::path& to, bool with_links_as_copies) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "r")) {
    if (entry.is_symlink() && !with_links_as_copies) continue;
    fs::create_directories(to);
    fs::copy(entry.is_symlink() ? fs::canonical(entry.path()) : entry.path(), to / entry.path().filename(),
             fs::copy_options::recursive);
  }
}

}  // namespace

TEST_CASE("run folder: a copy without links is the same run") {
  const TrainedFolder folder({"train.epochs=2"});
  const auto accuracy = [&](const std::string& run) {
    return run_command(folder, {"eval", run, "--json", "-"}).json().at("val_loss");
  };
  for (const bool copies : {true, false}) {
    fs::remove_all(folder / "copy");
    copy_run(folder, folder / "copy", copies);
    for (const char* const name : {"", "/last", "/best"})
      CHECK(accuracy("copy" + std::string(name)) == accuracy("r" + std::string(name)));
    CHECK(
        run_command(folder, train({"model.from=copy/best", "output.dir=from", "--overwrite", "train.steps=1"})).code ==
        0);
    test::run(folder, {"train", "--resume", "copy", "train.epochs=3"});
    CHECK(fs::read_symlink(folder / "copy/last") == "checkpoints/step-00000012");
  }
  fs::remove_all(folder / "copy");
  fs::create_directories(folder / "copy");
  fs::copy(folder / "r/config.yaml", folder / "copy");
  fs::copy(fs::canonical(folder / "r/last"), folder / "copy/last", fs::copy_options::recursive);
  CHECK(accuracy("copy") == accuracy("r/last"));
  CHECK(run_command(folder, {"train", "--resume", "copy/last", "train.epochs=3"}).code == 0);
  CHECK(read_json(folder / "copy/summary.json").at("steps") == 12);
}

TEST_CASE("run folder: the data is found from any working folder") {
  const TrainedFolder folder;
  test::run(folder, train({"output.dir=runs/a", "train.steps=1", "model.from=r/last"}));
  const std::string configuration = read_file(folder / "runs/a/config.yaml");
  check_says(configuration, "from: " + (folder / "r/last").string());
  check_says(configuration, "dir: " + (folder / "runs/a").string());
}

TEST_CASE("train: --overwrite removes what a run wrote, and nothing else") {
  const TemporaryFolder folder(vit);
  fs::create_directories(folder / "r/checkpoints/step-7");
  fs::create_directories(folder / "r/best");
  for (const char* const file : {"checkpoints/model.pth", "checkpoints/step-7/a", "best/b", "notes.txt"})
    write_file(folder / "r" / file, "mine");
  for (int i = 0; i < 2; ++i) {
    CHECK(run_command(folder, train({"output.dir=r", "train.steps=1", "--overwrite"})).code == 0);
    for (const char* const file : {"checkpoints/model.pth", "checkpoints/step-7/a", "best/b", "notes.txt"})
      CHECK(fs::exists(folder / "r" / file));
  }
}

TEST_CASE("train: standard error that cannot be written to ends nothing") {
  const TemporaryFolder folder(vit);
  for (const char* const where : {"2>/dev/full", "2>&-", ">&- 2>&-", ">/dev/full", "<&- >&- 2>&-"}) {
    const std::string line = LACUNA_BINARY_DIR
        "/bin/lacuna train -c c.yaml output.dir=r --overwrite train.steps=1 "
        "'freeze.train=head*' ";
    CHECK_MESSAGE(run_program(folder, "/bin/sh", {"-c", line + where}).code == 0, where);
  }
}

TEST_CASE("train: steps beyond the epochs are said") {
  const TemporaryFolder folder(vit);
  const CommandResult result =
      run_command(folder, train({"output.dir=r", "train.steps=500", "train.epochs=1", "schedule.warmup_epochs=0"}));
  CHECK(result.code == 0);
  check_says(result.error, "train.steps");
}

TEST_CASE("train: a teacher may be the best of a run, and is not needed to evaluate") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=teacher", "model={name: resnet20, image_size: 8}", "train.steps=4",
                           "train.ema_decay=0.9"}));
  const std::vector<std::string> student{"output.dir=r", "train.steps=2",
                                         "task={name: distillation, teacher: resnet20, teacher_from: teacher/best}"};
  test::run(folder, train(student));
  check_says(read_file(folder / "r/config.yaml"), (folder / "teacher/best").string());
  fs::remove_all(folder / "teacher");
  CHECK(run_command(folder, {"eval", "r"}).code == 0);
  check_refusals(folder, train({"output.dir=s"}), {{student[2], "teacher/best"}});
}

TEST_CASE("train: the checkpoint of an average hands over what it was evaluated by") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=r", "train.ema_decay=0.99"}));
  const auto loss = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "eval");
    arguments.insert(arguments.end(), {"--json", "-"});
    return run_command(folder, std::move(arguments)).json().at("val_loss");
  };
  CHECK(loss({"r"}) == loss({"-c", "c.yaml", "model.from=r/best"}));
  CHECK(loss({"r/last"}) == loss({"-c", "c.yaml", "model.from=r/last"}));
  CHECK(loss({"r/last"}) != loss({"-c", "c.yaml", "model.from=r/last/model.safetensors"}));
  std::istringstream lines(read_file(folder / "r/metrics.jsonl"));
  int evaluations = 0;
  for (std::string line; std::getline(lines, line);)
    evaluations += nlohmann::json::parse(line).contains("val_accuracy_without_average");
  CHECK(evaluations == 3);
}

TEST_CASE("weights that are not finite are named with their file, and end the command with 1") {
  const TrainedFolder folder;
  const SafetensorsFile file(folder / "r/last/model.safetensors");
  std::vector<NamedTensor> state;
  for (const SafetensorsEntry& entry : file.entries()) state.emplace_back(entry.name, file.load(entry.name));
  for (auto& [name, tensor] : state)
    if (name == "blocks.1.mlp.fc1.weight") tensor.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(folder / "nan.safetensors", state);
  for (const char* const command : {"eval", "train"}) {
    const CommandResult result = run_command(folder, {command, "-c", "c.yaml", "model.from=nan.safetensors"});
    CHECK(result.code == 1);
    check_says(result.error, "nan.safetensors");
    check_says(result.error, "blocks.1.mlp.fc1.weight");
  }
}

}  // namespace lacuna::test
