// The record that a run writes: every value in effect, and the processes that ran it.
#include "tests/apps/train/train_run.h"

#include <fmt/format.h>

namespace lacuna::test {

TEST_CASE("train: config.yaml of a run gives the same run again") {
  for (const std::string_view configuration : {vit, resnet}) {
    const TemporaryFolder folder(configuration);
    test::run(folder, train({"output.dir=r", "train.epochs=1"}));
    const CommandResult again = test::run(folder, {"train", "r/config.yaml", "output.dir=again"});
    check_same_checkpoint(folder, "r", "again");
    CHECK(noted(folder / "r") == noted(folder / "again"));
  }
}

TEST_CASE("train: record.json has a session for each process of a run") {
  const TemporaryFolder folder(vit);
  test::run(folder, train({"output.dir=it's a run", "train.steps=2"}));
  const fs::path record = folder / "it's a run/record.json";
  const nlohmann::json first = read_json(record).at("sessions");
  REQUIRE(first.size() == 1);
  CHECK(
      first[0].at("command").get<std::string>().ends_with("lacuna train -c c.yaml 'output.dir=it'\\''s a run' "
                                                          "train.steps=2"));
  CHECK(first[0].at("directory") == folder.path());
  CHECK(first[0].at("threads") == 1);
  CHECK(first[0].at("first_step") == 0);
  CHECK(first[0].at("last_step") == 2);
  CHECK(first[0].at("outcome") == "finished");
  for (const char* const key : {"version", "commit", "host", "processor", "started", "ended"})
    CHECK_MESSAGE(first[0].at(key).is_string(), key);

  test::run(folder, {"train", "--resume", "it's a run", "train.steps=4"});
  // A process that was killed leaves a session that says that it runs.
  nlohmann::json changed = read_json(record);
  changed["sessions"][1]["outcome"] = "running";
  write_file(record, changed.dump());
  test::run(folder, {"train", "--resume", "it's a run", "train.steps=5"});
  const nlohmann::json last = read_json(record), sessions = last.at("sessions");
  REQUIRE(sessions.size() == 3);
  CHECK(sessions[0] == first[0]);
  CHECK(sessions[1].at("outcome") == "killed");
  CHECK(sessions[2].at("first_step") == 4);
  double seconds = 0;
  for (const nlohmann::json& session : sessions) seconds += session.at("seconds").get<double>();
  CHECK(last.at("seconds") == doctest::Approx(seconds));
  CHECK(read_json(folder / "it's a run/summary.json").at("seconds") == last.at("seconds"));
}

TEST_CASE("train: record.json tells how a session ended") {
  const TemporaryFolder folder(vit);
  REQUIRE(stop_after(folder, 2, SIGTERM).code == 143);
  CHECK(read_json(folder / "r/record.json").at("sessions").back().at("outcome") == "stopped");
  CHECK(run_command(folder, {"train", "-c", "c.yaml", "optimizer.lr=1e30", "output.dir=f"}).code == 1);
  CHECK(read_json(folder / "f/record.json").at("sessions").back().at("outcome") == "failed");
}

TEST_CASE("train: a damaged record.json is refused and left as it is") {
  const TrainedFolder folder;
  for (const char* const text : {"{\"sess", "{\"seconds\": 1}", "{\"sessions\": [1]}"}) {
    write_file(folder / "r/record.json", text);
    check_refusals(folder, {"train", "--resume", "r"}, {{"train.steps=3", "record.json"}});
    CHECK(read_file(folder / "r/record.json") == text);
  }
  fs::remove(folder / "r/record.json");
  CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=3"}).code == 0);
}

TEST_CASE("train: best is the best evaluation, within an epoch too") {
  const TemporaryFolder folder(vit);
  const auto best_step = [&](const std::string& run) {
    double best = -1;
    std::int64_t step = 0;
    for (const nlohmann::json& line : noted(folder / run))
      if (line.contains("val_accuracy") && line.at("val_accuracy") > best) {
        best = line.at("val_accuracy");
        step = line.at("step");
      }
    CHECK(read_json(folder / run / "last/checkpoint.json").at("/progress/best/metrics/accuracy"_json_pointer) == best);
    return step;
  };
  // Three epochs of four steps: two evaluations within each, and one at its end.
  const CommandResult often = test::run(folder, train({"output.dir=often", "train.eval_every_steps=1"}));
  CHECK(std::ranges::count_if(noted(folder / "often"), [](const auto& line) { return line.contains("val_loss"); }) ==
        12);
  CHECK(fs::read_symlink(folder / "often/best").filename() == fmt::format("step-{:08}", best_step("often")));
  // One that ends within an epoch, after a single evaluation.
  const CommandResult ended = test::run(folder, train({"output.dir=ended", "train.steps=2"}));
  CHECK(best_step("ended") == 2);
  CHECK(fs::read_symlink(folder / "ended/best") == "checkpoints/step-00000002");
  for (const char* const part : {"ended/best", "accuracy", "peak", "lacuna report ended"})
    CHECK_MESSAGE(ended.out.substr(ended.out.rfind("done: ")).find(part) != std::string::npos, part);
  // Resumed, it goes on with that evaluation, which is not made again.
  test::run(folder, {"train", "--resume", "ended", "train.steps=3"});
  CHECK(std::ranges::count_if(noted(folder / "ended"), [](const auto& line) { return line.contains("val_loss"); }) ==
        2);
  CHECK(fs::read_symlink(folder / "ended/best").filename() == fmt::format("step-{:08}", best_step("ended")));
}

}  // namespace lacuna::test
